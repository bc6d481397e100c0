//! The process `osmia`.
fn main() {}
