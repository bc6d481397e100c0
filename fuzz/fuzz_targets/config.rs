//! See `tests::config`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| tests::config::check_values(data));
