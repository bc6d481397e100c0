//! Times of members of sets: SEXPIRE and its kin, made like those of hashes.

use crate::command::times::{SET_MEMBERS, family};

family!("s", super::SET, SET_MEMBERS, "a set");
