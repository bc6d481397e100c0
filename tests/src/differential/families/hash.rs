//! Hashes, times of fields included.

use super::{Row, row};
use crate::differential::rule::Rule;

pub(super) const HASH: &[Row] = &[
    row("HSET <hash> {<member> <short>}").weight(16),
    row("HSET <hash> {<member> <value>}").weight(12),
    row("HSETNX <hash> <member> <value>"),
    row("HMSET <hash> {<member> <value>}"),
    row("HGET <hash> <member>"),
    row("HMGET <hash> {<member>}"),
    row("HGETALL <hash>").by(Rule::Pairs),
    row("HKEYS <hash>").by(Rule::Unordered),
    row("HVALS <hash>").by(Rule::Unordered),
    row("HLEN <hash>"),
    row("HSTRLEN <hash> <member>"),
    row("HEXISTS <hash> <member>"),
    row("HDEL <hash> {<member>}").weight(10),
    row("HINCRBY <hash> <member> <integer>").weight(6),
    row("HINCRBYFLOAT <hash> <member> <float>").weight(6),
    row("HRANDFIELD <hash>").by(Rule::Sample).weight(1),
    row("HRANDFIELD <hash> <count> [WITHVALUES]").by(Rule::Sample).weight(2),
    row("HSCAN <hash> 0 [MATCH <pattern>] [COUNT <count>] [NOVALUES]").by(Rule::Scan).weight(2),
    row("HEXPIRE <hash> <seconds> [NX|XX|GT|LT] FIELDS #{<member>}"),
    row("HPEXPIRE <hash> <ms> [NX|XX|GT|LT] FIELDS #{<member>}"),
    row("HEXPIREAT <hash> <at-seconds> [NX|XX|GT|LT] FIELDS #{<member>}"),
    row("HPEXPIREAT <hash> <at-ms> [NX|XX|GT|LT] FIELDS #{<member>}").weight(6),
    row("HPEXPIRE <hash> <blink> FIELDS #{<member>}").weight(1),
    row("HTTL <hash> FIELDS #{<member>}").by(Rule::Seconds),
    row("HPTTL <hash> FIELDS #{<member>}").by(Rule::Milliseconds),
    row("HEXPIRETIME <hash> FIELDS #{<member>}").by(Rule::Seconds),
    row("HPEXPIRETIME <hash> FIELDS #{<member>}").by(Rule::Milliseconds),
    row("HPERSIST <hash> FIELDS #{<member>}"),
    row("HGETDEL <hash> FIELDS #{<member>}"),
    row("HGETEX <hash> [EX <seconds>|PX <ms>|EXAT <at-seconds>|PXAT <at-ms>|PERSIST] FIELDS #{<member>}")
        .weight(6),
    row("HGETEX <hash> PX <blink> FIELDS #{<member>}").weight(1),
    row("HSETEX <hash> [FNX|FXX] [EX <seconds>|PX <ms>|EXAT <at-seconds>|PXAT <at-ms>|KEEPTTL] \
         FIELDS #{<member> <value>}")
        .weight(8),
    row("HSETEX <hash> PX <blink> FIELDS #{<member> <value>}").weight(1),
];
