//! Why a command was refused, and the exact text that the client reads.

use engine::OpError;
use std::borrow::Cow;

/// A refusal: its whole text with the code in front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandError(pub Cow<'static, [u8]>);

impl CommandError {
    /// A fixed text.
    pub const fn new(text: &'static str) -> Self {
        Self(Cow::Borrowed(text.as_bytes()))
    }

    /// A text made for the occasion.
    pub fn text(text: impl Into<Vec<u8>>) -> Self {
        Self(Cow::Owned(text.into()))
    }

    /// A text that repeats a word of the client's, up to its first NUL: as far as Redis, which
    /// prints it as a C string, repeats it.
    pub fn naming(before: &str, word: &[u8], after: &str) -> Self {
        Self::text([before.as_bytes(), c_string(word), after.as_bytes()].concat())
    }

    /// The code: the first word.
    pub fn code(&self) -> &[u8] {
        self.0.split(|byte| *byte == b' ').next().unwrap_or_default()
    }
}

/// The bytes before the first NUL.
pub(super) fn c_string(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// The arguments do not make sense together.
pub const SYNTAX: CommandError = CommandError::new("ERR syntax error");
/// An argument is no integer.
pub const NOT_AN_INTEGER: CommandError =
    CommandError::new("ERR value is not an integer or out of range");
/// An argument is no float.
pub const NOT_A_FLOAT: CommandError = CommandError::new("ERR value is not a valid float");
/// A database number beyond `databases`.
pub const DB_OUT_OF_RANGE: CommandError = CommandError::new("ERR DB index is out of range");
/// The key must exist.
pub const NO_SUCH_KEY: CommandError = CommandError::new("ERR no such key");
/// Source and target are one.
pub const SAME_OBJECT: CommandError =
    CommandError::new("ERR source and destination objects are the same");
/// A value would pass `proto-max-bulk-len`.
pub const STRING_TOO_LONG: CommandError =
    CommandError::new("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
/// No memory left under `maxmemory`.
pub const OUT_OF_MEMORY: CommandError =
    CommandError::new("OOM command not allowed when used memory > 'maxmemory'.");

impl From<OpError> for CommandError {
    fn from(error: OpError) -> Self {
        match error {
            OpError::WrongType => {
                Self::new("WRONGTYPE Operation against a key holding the wrong kind of value")
            }
            OpError::NotInteger => NOT_AN_INTEGER,
            OpError::Overflow => Self::new("ERR increment or decrement would overflow"),
            OpError::NotANumber => Self::new("ERR resulting score is not a number (NaN)"),
            OpError::NotHyperLogLog => {
                Self::new("WRONGTYPE Key is not a valid HyperLogLog string value.")
            }
            OpError::CorruptHyperLogLog => Self::new("INVALIDOBJ Corrupted HLL object detected"),
            OpError::TooLarge => STRING_TOO_LONG,
            OpError::OutOfMemory => Self::new(
                "OOM the shard's arena is full; more shards, or a larger arena-limit, give room",
            ),
        }
    }
}
