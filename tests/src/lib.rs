//! What tests, fuzz targets and simulations across crates share.
//!
//! Each `check_*` function takes foreign bytes and panics on a broken promise; `cargo test` runs
//! them over their corpora, and a fuzz target is a call of one of them.

pub mod config;
pub mod differential;
pub mod dump;
pub mod keyspace;
pub mod packed;
pub mod random;
pub mod resp;
