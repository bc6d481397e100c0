//! The server as a library.
