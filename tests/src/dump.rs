//! DUMP payloads under foreign bytes, and round trips of strings.

use encodings::rdb;

/// Reads a payload that may be anything, and writes and reads the input itself.
pub fn check_payload(data: &[u8]) {
    let _ = rdb::read_string_payload(data);
    for compress in [false, true] {
        let payload = rdb::dump_string(data, compress);
        let read = rdb::read_string_payload(&payload).expect("what was written can be read");
        assert_eq!(read, data);
    }
}
