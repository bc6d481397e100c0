//! The keyspace in memory, as a typed library.
#![deny(unsafe_code)]

pub mod arena;
pub mod error;
pub mod slab;
pub mod table;
#[cfg(test)]
mod testing;
