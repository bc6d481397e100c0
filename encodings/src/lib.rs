//! encodings.
