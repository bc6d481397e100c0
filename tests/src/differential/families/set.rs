//! Sets.

use super::{Row, row};
use crate::differential::rule::Rule;

pub(super) const SET: &[Row] = &[
    row("SADD <set> {<member>}").weight(24),
    row("SADD <set> {<integer>}").weight(3),
    row("SREM <set> {<member>}").weight(10),
    row("SISMEMBER <set> <member>"),
    row("SMISMEMBER <set> {<member>}"),
    row("SCARD <set>"),
    row("SMEMBERS <set>").by(Rule::Unordered),
    row("SPOP <set> [<count>]").by(Rule::Pop),
    row("SRANDMEMBER <set> [<count>]").by(Rule::Sample),
    row("SMOVE <set> <set> <member>").weight(6),
    row("SINTER {<set>}").by(Rule::Unordered),
    row("SUNION {<set>}").by(Rule::Unordered),
    row("SDIFF {<set>}").by(Rule::Unordered),
    row("SINTERSTORE <set> {<set>}"),
    row("SUNIONSTORE <set> {<set>}"),
    row("SDIFFSTORE <set> {<set>}"),
    row("SINTERCARD #{<set>} [LIMIT <count>]"),
    row("SSCAN <set> 0 [MATCH <pattern>] [COUNT <count>]").by(Rule::Scan).weight(2),
];
