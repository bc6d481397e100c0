//! Keys of any type, SORT, and iterations.

use super::{Row, row};
use crate::differential::rule::Rule;

pub(super) const KEYS: &[Row] = &[
    row("SET <string> <value>").weight(8),
    row("INCR <string>").weight(2),
    row("SETBIT <bits> <bit> 1").weight(2),
    row("PFADD <hll> {<member>}").weight(2),
    row("RPUSH <list> {<member>}").weight(6),
    row("SADD <set> {<member>}").weight(6),
    row("HSET <hash> {<member> <value>}").weight(6),
    row("HPEXPIREAT <hash> <at-ms> FIELDS #{<member>}").weight(4),
    row("ZADD <zset> {<score> <member>}").weight(6),
    row("GEOADD <geo> {<point>}").weight(2),
    row("XADD <stream> <new-id> <member> <value>").weight(6),
    row("XGROUP CREATE <stream> <group> 0").weight(2),
    row("XREADGROUP GROUP <group> <consumer> STREAMS <stream> >").weight(2),
    row("DEL {<any>}").weight(8),
    row("UNLINK {<any>}"),
    row("EXISTS {<any>}"),
    row("TOUCH {<any>}"),
    row("TYPE <any>"),
    row("EXPIRE <any> <seconds> [NX|XX|GT|LT]").weight(6),
    row("PEXPIRE <any> <ms> [NX|XX|GT|LT]").weight(6),
    row("EXPIREAT <any> <at-seconds> [NX|XX|GT|LT]").weight(6),
    row("PEXPIREAT <any> <at-ms> [NX|XX|GT|LT]").weight(6),
    row("PEXPIRE <any> <blink>").weight(2),
    row("TTL <any>").by(Rule::Seconds),
    row("PTTL <any>").by(Rule::Milliseconds),
    row("EXPIRETIME <any>").by(Rule::Seconds),
    row("PEXPIRETIME <any>").by(Rule::Milliseconds),
    row("PERSIST <any>").weight(6),
    row("RENAME <any> <any>").weight(8),
    row("RENAMENX <any> <any>"),
    row("COPY <any> <any> [DB (0|1)] [REPLACE]").weight(12),
    row("MOVE <any> (0|1|1)"),
    row("OBJECT ENCODING <any>").by(Rule::Encoding).weight(8),
    row("OBJECT REFCOUNT <any>").by(Rule::Kind).weight(2),
    row("OBJECT IDLETIME <any>").by(Rule::Seconds).weight(2),
    row("OBJECT FREQ <any>").weight(1),
    row("OBJECT <short> <any>").weight(1),
    row("KEYS <pattern>").by(Rule::Unordered),
    row("RANDOMKEY").by(Rule::Sample).weight(2),
    row("DBSIZE"),
    row("DUMP <any>").by(Rule::Dump).weight(12),
    row("RESTORE <any> (0|<ms>) <garbage> [REPLACE] [ABSTTL]").weight(2),
    row("MEMORY USAGE <any>").by(Rule::Kind).weight(2),
    row("SELECT (0|0|1)").weight(2),
    row("SWAPDB 0 1").weight(1),
    row("FLUSHDB").weight(1),
    row("WAIT 0 1").weight(1),
];

/// Weights for [`SORT`] that are all unlike, so that texts have one order.
pub(super) const SORT_SETUP: &[&str] =
    &["MSET wa_0 k wa_1 c wa_2 x wa_3 a wa_4 z wa_5 b wa_6 y wa_7 d wa_8 q wa_9 e wa_10 p wa_11 f"];

pub(super) const SORT_FIRST: &[&str] = &[
    "MSET w_0 5 w_1 5 w_2 -1 w_3 0.5 w_4 1e3 w_5 0 w_6 inf w_7 9 w_8 8 w_9 7 w_10 6",
    "HSET wh_0 f 3",
    "HSET wh_1 f 2",
    "HSET wh_2 f 7",
    "HSET wh_3 g 7",
    // What is sorted by texts has only members with a text.
    "DEL l:0 u:0 z:0",
];

pub(super) const SORT: &[Row] = &[
    row("RPUSH <list> {<sortable>}").weight(10).intact(),
    row("LPOP <list>"),
    row("SADD <set> {<sortable>}").weight(10).intact(),
    row("SREM <set> {<sortable>}"),
    row("ZADD <zset> {<score> <sortable>}").weight(10).intact(),
    row("ZREM <zset> {<sortable>}"),
    row("RPUSH <tiny> {<member>}"),
    row("SADD <tiny> {<value>}"),
    row("DEL <tiny>"),
    row("SET <weight-key> <integer>"),
    row("DEL <weight-key>").weight(1),
    row("SET <weight-key> <value>").weight(1),
    row("SORT (<list>|<set>|<zset>) [LIMIT <index> <count>] [ASC|DESC] [ALPHA]")
        .by(Rule::Collated)
        .weight(12),
    row("SORT <tiny> [LIMIT <index> <count>] [ASC|DESC] [ALPHA]").by(Rule::Collated).weight(6),
    row("SORT (<list>|<set>|<zset>) BY w_* [LIMIT <index> <count>] \
         [{GET (#|w_*|wh_*->f|none_*)}] [ASC|DESC]")
    .weight(8)
    .intact(),
    row("SORT (<list>|<set>|<zset>) BY wh_*->f [LIMIT <index> <count>] [ASC|DESC]").intact(),
    row("SORT (<list>|<set>|<zset>) BY wa_* [LIMIT <index> <count>] [GET wa_*] [ASC|DESC] ALPHA")
        .intact(),
    row("SORT (<list>|<zset>) BY nosort [LIMIT <index> <count>] [{GET (#|w_*)}] [ASC|DESC]")
        .intact(),
    row("SORT <set> BY nosort [GET #]").by(Rule::Unordered).weight(2).intact(),
    row("SORT (<list>|<set>|<zset>) [BY w_*] [LIMIT <index> <count>] [GET (#|w_*|wh_*->f)] \
         [DESC] STORE <tiny>")
    .weight(8)
    .intact(),
    row("SORT (<list>|<set>|<zset>) BY nosort [LIMIT <index> <count>] STORE <tiny>").intact(),
    row("SORT_RO (<list>|<set>|<zset>) [LIMIT <index> <count>] [{GET (#|w_*)}] [ASC|DESC] [ALPHA]")
        .by(Rule::Collated)
        .weight(6),
    row("SORT_RO <list> STORE <list>").weight(1),
    row("LRANGE <tiny> 0 -1"),
];

pub(super) const SCAN: &[Row] = &[
    row("SET <numbered> <short>").weight(20),
    row("MSET {<numbered> <short>}").weight(12),
    row("PEXPIREAT <numbered> <at-ms>"),
    row("PEXPIRE <numbered> <blink>").weight(1),
    row("DEL {<numbered>}").weight(8),
    row("SCAN 0 [MATCH <pattern>] [COUNT <count>] [TYPE (string|list|set|zset|hash|stream|STRING|x)]")
        .by(Rule::Scan)
        .weight(12),
    row("KEYS <pattern>").by(Rule::Unordered),
    row("RANDOMKEY").by(Rule::Sample),
    row("DBSIZE"),
    row("HSET <hash> {<member> <short>}").weight(12),
    row("HDEL <hash> {<member>}"),
    row("HPEXPIREAT <hash> <at-ms> FIELDS #{<member>}").weight(2),
    row("HSCAN <hash> 0 [MATCH <pattern>] [COUNT <count>] [NOVALUES]").by(Rule::Scan).weight(6),
    row("SADD <set> {<member>}").weight(12),
    row("SREM <set> {<member>}"),
    row("SSCAN <set> 0 [MATCH <pattern>] [COUNT <count>]").by(Rule::Scan).weight(6),
    row("ZADD <zset> {<score> <member>}").weight(12),
    row("ZREM <zset> {<member>}"),
    row("ZSCAN <zset> 0 [MATCH <pattern>] [COUNT <count>]").by(Rule::Scan).weight(6),
];
