//! Tests across crates, in one binary.

mod fuzz;
mod linearizability;
mod simulated;
mod simulation;
mod tidy;
