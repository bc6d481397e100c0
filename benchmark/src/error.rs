//! What can go wrong in a measurement.

use std::fmt;
use std::io;

/// Result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a measurement could not be made. A reply that is an error is no such reason: it marks the
/// row that it belongs to.
#[derive(Debug)]
pub enum Error {
    /// The kernel refused something; the text says what was tried.
    Io(String, io::Error),
    /// A server did not start, ended early, or sent bytes that are not RESP.
    Server(String, String),
    /// The caller asked for something that makes no sense.
    Input(String),
}

impl Error {
    /// For `map_err`: names what was tried.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io(what, source)
    }

    /// A complaint about the server with this label.
    pub fn server(label: &str, text: impl Into<String>) -> Self {
        Self::Server(label.to_owned(), text.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(what, source) => write!(f, "{what}: {source}"),
            Self::Server(label, text) => write!(f, "{label}: {text}"),
            Self::Input(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(_, source) => Some(source),
            _ => None,
        }
    }
}
