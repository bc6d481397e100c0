//! What an operation of the engine can refuse, and why.
//!
//! The enum is small on purpose: the server maps each variant to one Redis error text. Foreign
//! bytes (an effect log, say) answer [`Corrupt`] and never panic.

use std::fmt;

/// Why an operation changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpError {
    /// The key holds a value of another type.
    WrongType,
    /// The value is not a canonical decimal integer in the range of `i64`.
    NotInteger,
    /// The result of the arithmetic does not fit `i64`.
    Overflow,
    /// A score would be no number: the sum of both infinities.
    NotANumber,
    /// The string is no HyperLogLog.
    NotHyperLogLog,
    /// The registers of a HyperLogLog do not add up.
    CorruptHyperLogLog,
    /// The arena's limit is reached; more shards or a larger arena is the cure.
    OutOfMemory,
    /// The value would be longer than a value may be ([`VALUE_LEN_MAX`]).
    TooLarge,
}

/// Longest value in bytes that the engine stores, whatever the server allows.
pub const VALUE_LEN_MAX: usize = u32::MAX as usize;

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OpError::WrongType => "the key holds a value of another type",
            OpError::NotInteger => "the value is not an integer",
            OpError::Overflow => "the result is out of range",
            OpError::NotANumber => "the score would be no number",
            OpError::NotHyperLogLog => "the string is no HyperLogLog",
            OpError::CorruptHyperLogLog => "the HyperLogLog is corrupt",
            OpError::OutOfMemory => "the arena's limit is reached",
            OpError::TooLarge => "the value would be too long",
        })
    }
}

impl std::error::Error for OpError {}

/// The arena's limit is reached, or the kernel gave no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

impl From<OutOfMemory> for OpError {
    fn from(_: OutOfMemory) -> OpError {
        OpError::OutOfMemory
    }
}

/// Foreign bytes do not have the form they should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes are not an effect")
    }
}

impl std::error::Error for Corrupt {}
