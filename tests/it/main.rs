//! Tests across crates, in one binary.

mod tidy;
