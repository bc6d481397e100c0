//! Tests across crates, in one binary.

mod fuzz;
mod simulation;
mod tidy;
