//! The keyspace in memory, as a typed library.
//!
//! A [`Partition`] is one shard's part of the keyspace: keys and values in slab blocks, an index of
//! cache-line buckets, an exact expire index. It is a plain value that can be sent between threads.
//!
//! What this crate refuses to know: RESP, sockets, files, threads, the wall clock, configuration
//! files. Time and randomness are passed in, so it does no I/O and cannot fail for I/O reasons, and
//! the same calls give the same state.
//!
//! ```
//! use engine::{Options, Partition, SetOptions, StringValue};
//!
//! let mut partition = Partition::new(&Options::default(), 1_764_550_000_000)?;
//! let key = partition.key(b"answer");
//! partition.set(0, &key, b"42", SetOptions::default())?;
//! assert_eq!(partition.get(0, &key)?, Some(StringValue::Int(42)));
//! # Ok::<(), engine::OpError>(())
//! ```
//!
//! Layers, bottom up: `arena` (spans of an address range), `slab` (blocks in spans), `table` (index
//! from hash to block), `block` (layout of a key with its value), `expire` (what is due when),
//! `partition`, `keyspace`, `string`, `scan` (operations), `maintain` (upkeep in steps).

#![deny(unsafe_code)]

pub mod arena;
pub mod slab;
pub mod table;

mod access;
mod big;
mod block;
mod cell;
mod collection;
mod database;
mod dict;
mod effect;
mod error;
mod expire;
mod hash;
mod heap;
mod hyperloglog;
mod key;
mod keyspace;
mod large;
mod list;
mod maintain;
mod members;
mod memory;
mod packed;
mod partition;
mod replay;
mod scan;
mod set;
mod sorted_set;
mod store;
mod stream;
mod string;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tree;

pub use access::AccessMode;
pub use block::ValueType;
pub use collection::Limits;
pub use effect::{Change, DeleteCause, Deliveries, Effect, End, Event, Ids, Origin, PlacedForm};
pub use effect::{StreamChange, Strings};
pub use error::{Corrupt, OpError, OutOfMemory, VALUE_LEN_MAX};
pub use hash::Pair;
pub use key::{HASH_SLOTS, Key, KeyHasher, hash_slot};
pub use keyspace::Transfer;
pub use list::{List, ListDraft, ListIter, ListIterBack};
pub use maintain::MaintainReport;
pub use members::{Member, Members, Value};
pub use memory::Memory;
pub use packed::FIELD_TIME_MAX_MS;
pub use partition::{Options, Partition, Stats};
pub use scan::ScanCursor;
pub use sorted_set::{Scored, in_order};
pub use stream::{Added, Consumer, Deletion, Delivery, Group, Keep, NewId, Pending};
pub use stream::{References, Stream, StreamId, Trim};
pub use string::{Changed, SetCondition, SetExpire, SetOptions, StringValue};
