//! See `tests::resp`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| tests::resp::check_requests(data));
