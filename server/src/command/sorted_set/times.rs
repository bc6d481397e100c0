//! Times of members of sorted sets: ZEXPIRE and its kin, made like those of hashes.

use crate::command::times::{SORTED_SET_MEMBERS, family};

family!("z", super::ZSET, SORTED_SET_MEMBERS, "a sorted set");
