//! benchmark.
