//! Server commands.
use super::spec::Command;
/// The rows of this family.
pub const COMMANDS: &[Command] = &[];
