//! Byte formats of values and pure algorithms on bytes: no keys, no clocks, no sockets.

#![forbid(unsafe_code)]

pub mod bitfield;
pub mod bitmap;
pub mod crc16;
pub mod double;
pub mod float80;
pub mod geohash;
pub mod glob;
pub mod hyperloglog;
pub mod integer;
pub mod intset;
pub mod lcs;
pub mod listpack;
mod literal;
pub mod lzf;
pub mod rdb;
pub mod stream;
pub mod ziplist;
pub mod zipmap;

/// Bytes from outside that do not follow their format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;
