//! Which process or shard serves a key, worked out on the client's side.
//!
//! The hash slot of a key is CRC16 (XMODEM: polynomial 0x1021, from 0, high bit first) of its hash
//! tag, modulo 16384. Hash slots are dealt out in ranges of even length:
//!
//! ```text
//! node = hash slot * nodes / 16384
//! ```
//!
//! A routing client keeps connections to every node and sends each request where its key lives.
//! Here the numbers of all keys are sorted by node before the load, and a connection draws from the
//! numbers of its node: requests arrive as those of a routing client do, and the client's work
//! for a request is the same with one node and with many.

use std::ops::Range;
use std::sync::Arc;

use crate::template::DIGITS;
use crate::{Error, Result};

/// Hash slots of a cluster.
pub const HASH_SLOTS: usize = 16384;

const CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// The hash slot of a key.
pub fn hash_slot(key: &[u8]) -> usize {
    let hashed = hash_tag(key).unwrap_or(key);
    let crc = hashed
        .iter()
        .fold(0_u16, |crc, byte| (crc << 8) ^ CRC16[usize::from((crc >> 8) as u8 ^ byte)]);
    usize::from(crc) % HASH_SLOTS
}

/// What stands between the first `{` and the first `}` after it, unless that is nothing.
fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let (_, after) = key.split_at_checked(memchr::memchr(b'{', key)? + 1)?;
    let end = memchr::memchr(b'}', after)?;
    (end > 0).then(|| &after[..end])
}

/// The node that serves a hash slot.
pub fn node_of(slot: usize, nodes: usize) -> usize {
    slot * nodes / HASH_SLOTS
}

/// The hash slots that a node serves.
pub fn slots_of(node: usize, nodes: usize) -> Range<usize> {
    (node * HASH_SLOTS).div_ceil(nodes)..((node + 1) * HASH_SLOTS).div_ceil(nodes)
}

/// Members of each hash tag.
pub const MEMBERS: u64 = 100;

/// Numbers of keys, hash tags and channels, by the node that serves them.
#[derive(Clone, Debug)]
pub struct Routes {
    /// Numbers of the keys that [`key`] names.
    pub keys: Vec<Arc<[u32]>>,
    /// Numbers of the hash tags that [`tagged`] puts into keys.
    pub tags: Vec<Arc<[u32]>>,
    /// Numbers of the channels that [`channel`] names. Any node takes a message; these go by hash
    /// slot because clients differ in how they choose.
    pub channels: Vec<Arc<[u32]>>,
}

impl Routes {
    /// Spreads `keys` keys, as many tagged ones and as many channels over the nodes.
    ///
    /// # Errors
    /// A node would have none.
    pub fn new(keys: u32, nodes: usize) -> Result<Self> {
        let routes = Self {
            keys: spread(keys, nodes, key),
            tags: spread(keys.div_ceil(MEMBERS as u32), nodes, |tag| tagged(tag, 0)),
            channels: spread(keys, nodes, channel),
        };
        let lists = routes.keys.iter().chain(&routes.tags).chain(&routes.channels);
        if lists.into_iter().any(|numbers| numbers.is_empty()) {
            return Err(Error::Input(format!("{keys} keys are too few for {nodes} nodes")));
        }
        Ok(routes)
    }

    /// Keys of both kinds, over all nodes.
    pub fn keys_count(&self) -> u64 {
        let count = |lists: &[Arc<[u32]>]| lists.iter().map(|list| list.len() as u64).sum::<u64>();
        count(&self.keys) + count(&self.tags) * MEMBERS
    }
}

fn spread(count: u32, nodes: usize, name: impl Fn(u32) -> String) -> Vec<Arc<[u32]>> {
    let mut lists = vec![Vec::new(); nodes];
    for number in 0..count {
        lists[node_of(hash_slot(name(number).as_bytes()), nodes)].push(number);
    }
    lists.into_iter().map(Arc::from).collect()
}

/// The key of a number.
pub fn key(number: u32) -> String {
    format!("key:{number:0DIGITS$}")
}

/// A key with a hash tag.
pub fn tagged(tag: u32, member: u64) -> String {
    format!("{{{tag:0DIGITS$}}}:{member:0DIGITS$}")
}

fn channel(number: u32) -> String {
    format!("channel:{number:0DIGITS$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_slots_are_those_of_the_cluster_specification() {
        assert_eq!(hash_slot(b"123456789"), 0x31C3);
        assert_eq!(hash_slot(b"foo"), 12182);
        assert_eq!(hash_slot(b"foo{bar}zap"), hash_slot(b"bar"));
        assert_eq!(hash_slot(b"foo{bar}{zap}"), hash_slot(b"bar"));
        assert_eq!(hash_slot(b"foo{{bar}}zap"), hash_slot(b"{bar"));
        assert_eq!(hash_tag(b"foo{}{bar}"), None);
        assert_eq!(hash_tag(b"foo{bar"), None);
        assert_eq!(hash_slot(b""), 0);
    }

    #[test]
    fn hash_slots_are_those_of_the_server() {
        for number in 0..1000 {
            for name in [key(number), tagged(number, 7), channel(number)] {
                let slot = usize::from(engine::hash_slot(name.as_bytes()));
                assert_eq!(hash_slot(name.as_bytes()), slot, "{name}");
            }
        }
    }

    #[test]
    fn ranges_cover_every_hash_slot_once() {
        for nodes in 1..20 {
            for node in 0..nodes {
                assert!(slots_of(node, nodes).all(|slot| node_of(slot, nodes) == node));
            }
            assert_eq!(slots_of(nodes - 1, nodes).end, HASH_SLOTS);
        }
    }

    #[test]
    fn every_number_is_served_by_one_node() {
        let routes = Routes::new(5000, 3).expect("enough keys");
        let mut all: Vec<u32> = routes.keys.iter().flat_map(|list| list.iter().copied()).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..5000));
        assert_eq!(routes.keys_count(), 10_000);
        assert!(Routes::new(3, 8).is_err());
    }
}
