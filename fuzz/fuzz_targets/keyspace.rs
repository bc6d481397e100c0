//! See `tests::keyspace`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| tests::keyspace::check_operations(data));
