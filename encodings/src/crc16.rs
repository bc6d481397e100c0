//! The hash slot of a key in a cluster: CRC16 (XMODEM) modulo 16384, with hash tags.

use crc::{CRC_16_XMODEM, Crc};

/// Hash slots of a cluster.
pub const HASH_SLOTS: u16 = 16384;

const XMODEM: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);

/// The hash slot of a key. Where the key has a `{` and a `}` behind it with something in between,
/// only that (up to the first such `}`) is hashed.
pub fn hash_slot(key: &[u8]) -> u16 {
    XMODEM.checksum(tag(key).unwrap_or(key)) % HASH_SLOTS
}

fn tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|byte| *byte == b'{')?;
    let rest = &key[open + 1..];
    let close = rest.iter().position(|byte| *byte == b'}')?;
    (close > 0).then(|| &rest[..close])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_the_specification() {
        assert_eq!(hash_slot(b"123456789"), 0x31c3);
        assert_eq!(hash_slot(b"{user1000}.following"), hash_slot(b"user1000"));
        assert_eq!(hash_slot(b"foo{bar}{zap}"), hash_slot(b"bar"));
        assert_eq!(hash_slot(b"foo{{bar}}zap"), hash_slot(b"{bar"));
        assert_ne!(hash_slot(b"foo{}{bar}"), hash_slot(b"bar"));
        assert_eq!(hash_slot(b""), 0);
    }
}
