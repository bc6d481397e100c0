//! See `tests::dump`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| tests::dump::check_payload(data));
