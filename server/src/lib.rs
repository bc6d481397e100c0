//! The server `osmia` as a library; `main.rs` is its thin program.
//!
//! Bytes come in through [`shard`] (the loop over a network backend), are parsed and run by
//! [`input`] and [`command`], and leave as replies made by [`resp`]. The keyspace is the crate
//! `engine`; nothing here knows how it stores a value.

#![deny(unsafe_code)]

pub mod blocking;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod command;
pub mod config;
pub mod conn;
pub mod cron;
pub mod fabric;
pub mod figures;
pub(crate) mod files_limit;
pub mod fill;
pub mod input;
pub mod keyspace;
pub mod lend;
pub(crate) mod listen;
pub mod log;
pub mod monitor;
pub mod multi;
pub mod named;
pub mod notify;
pub mod process;
pub mod pubsub;
pub mod replace_file;
pub mod reserve;
pub mod resp;
pub mod settle;
pub mod shard;
pub mod slowlog;
pub mod start;
pub mod state;
pub mod stats;
pub mod supervise;
pub mod survey;
pub mod system;
pub mod tick;
pub mod tracking;
