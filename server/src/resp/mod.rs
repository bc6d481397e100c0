//! The wire protocol: requests in ([`parse`]), replies out ([`reply`]).

pub mod inline;
pub mod parse;
pub mod reply;

pub use parse::{ArgRange, Limits, Progress, ProtocolError, Step};
pub use reply::{Protocol, Reply};
