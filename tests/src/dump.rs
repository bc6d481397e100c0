//! DUMP payloads under foreign bytes, in a keyspace too, and round trips of strings.

use encodings::rdb;
use engine::{Options, Partition};

/// Reads a payload that may be anything, and writes and reads the input itself.
pub fn check_payload(data: &[u8]) {
    let _ = rdb::read_string_payload(data);
    // Without its checksum, which foreign bytes rarely have right.
    for dialect in [rdb::Dialect::Redis, rdb::Dialect::Valkey] {
        if let Ok(value) = rdb::read_value(data, dialect) {
            restore(&value);
        }
    }
    for compress in [false, true] {
        let payload = rdb::dump_string(data, compress);
        let read = rdb::read_string_payload(&payload).expect("what was written can be read");
        assert_eq!(read, data);
    }
}

/// Makes a key of a value that was read, and looks whether all is sound.
fn restore(value: &rdb::Value) {
    let mut partition = Partition::new(&Options::default(), 1).expect("address space");
    let key = partition.key(b"key");
    partition.restore(0, &key, value, None).expect("memory");
    partition.validate();
    assert!(partition.delete(0, &key, engine::DeleteCause::Command));
    partition.maintain(&mut || true);
    assert_eq!(partition.memory().blocks, 0, "everything was freed");
}
