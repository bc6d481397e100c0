//! Side-by-side measurements of servers that speak the Redis protocol.
//!
//! Every measurement takes any number of servers, each as `label=command line`, runs them on the
//! same machine in turns, checks the answers, prints a table and keeps a dated record. A server
//! is judged by what the kernel says about its process (CPU time, resident memory) and by its own
//! `INFO`; nothing in here knows how a server works inside.
//!
//! Code map: [`peer`] starts and watches a server process, [`wire`] is RESP from the client's
//! side, [`client`] a plain blocking client, [`load`] the load generator. On these stand
//! [`density`], [`rows`] (with [`floor`], the physical limit, beside them), [`shards`] and
//! [`complaints`].
//! [`record`] keeps results and [`table`] prints them.

pub mod client;
pub mod clock;
pub mod complaints;
pub mod density;
pub mod error;
pub mod fetch;
pub mod floor;
pub mod load;
pub mod machine;
pub mod numbers;
pub mod peer;
pub mod record;
pub mod rows;
pub mod shards;
pub mod table;
pub mod template;
pub mod wire;

pub use error::{Error, Result};
