//! A key on its way through the engine: its bytes, their hash, and its hash slot.

/// Hash slots of a cluster.
pub const HASH_SLOTS: usize = 16384;

/// A key that [`crate::Partition::key`] made; operations take it instead of bytes, so that the hash
/// is computed once for prefetch, lookup and insert.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// The key.
    pub bytes: &'a [u8],
    /// Its keyed hash.
    pub hash: u64,
    /// Its hash slot where the partition keeps a table per hash slot, else 0.
    pub slot: u16,
}

/// The hash slot of a key, as in Redis Cluster: CRC16 (XMODEM) of the key, or of what stands between
/// its first `{` and the next `}` when that is not empty.
pub fn hash_slot(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) & (HASH_SLOTS as u16 - 1)
}

fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return key };
    let tail = &key[open + 1..];
    match tail.iter().position(|&byte| byte == b'}') {
        Some(len) if len > 0 => &tail[..len],
        _ => key,
    }
}

static CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { crc << 1 ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, &byte| crc << 8 ^ CRC16[((crc >> 8) as u8 ^ byte) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_slots_are_those_of_redis_cluster() {
        let check = |key: &str, slot| assert_eq!(hash_slot(key.as_bytes()), slot, "{key}");
        check("123456789", 0x31c3);
        check("foo", 12182);
        check("bar", 5061);
        check("", 0);
        check("{foo}bar", 12182);
        check("x{foo}{bar}", 12182);
        assert_eq!(hash_slot(b"{}foo"), crc16(b"{}foo") & 0x3fff);
        assert_eq!(hash_slot(b"{foo"), crc16(b"{foo") & 0x3fff);
    }
}
