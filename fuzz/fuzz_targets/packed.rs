//! See `tests::packed`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| tests::packed::check_packed(data));
