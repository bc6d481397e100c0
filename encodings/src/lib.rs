//! Byte formats of values and pure algorithms on bytes: no keys, no clocks, no sockets.

#![forbid(unsafe_code)]

pub mod integer;

/// Bytes from outside that do not follow their format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;
