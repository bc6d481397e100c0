//! Commands: rows, arguments, dispatch, and a file per family.

pub mod args;
pub mod dispatch;
pub mod docs;
pub mod error;
#[cfg(test)]
mod golden;
pub mod spec;
pub mod table;

pub mod bitmap;
pub mod cluster;
pub mod connection;
pub mod fill;
pub mod geo;
pub mod hash;
pub mod hyperloglog;
pub mod keys;
pub mod lcs;
pub mod list;
pub mod pubsub;
mod sample;
pub mod server;
pub mod set;
pub mod sort;
pub mod sorted_set;
pub mod stream;
pub mod string;
mod times;
pub mod transaction;
mod wait;
