//! Strings, bitmaps and HyperLogLogs.

use super::{Row, row};
use crate::differential::rule::Rule;

pub(super) const STRING: &[Row] = &[
    row("SET <string> <value>").weight(16),
    row("SET <string> <value> [NX|XX] [GET] [EX <seconds>|PX <ms>|EXAT <at-seconds>|PXAT <at-ms>|KEEPTTL]")
        .weight(12),
    row("SET <string> <value> [GET] PX <blink>").weight(1),
    row("GET <string>").weight(8),
    row("GETDEL <string>"),
    row("GETEX <string> [EX <seconds>|PX <ms>|EXAT <at-seconds>|PXAT <at-ms>|PERSIST]"),
    row("GETEX <string> PX <blink>").weight(1),
    row("GETSET <string> <value>"),
    row("SETNX <string> <value>"),
    row("SETEX <string> <seconds> <value>"),
    row("PSETEX <string> <ms> <value>"),
    row("MSET {<string> <value>}").weight(8),
    row("MSETNX {<string> <value>}"),
    row("MGET {<string>}"),
    row("APPEND <string> <value>").weight(8),
    row("STRLEN <string>"),
    row("SETRANGE <string> <offset> <value>").weight(6),
    row("GETRANGE <string> <index> <index>").weight(6),
    row("SUBSTR <string> <index> <index>").weight(2),
    row("INCR <string>").weight(6),
    row("DECR <string>"),
    row("INCRBY <string> <integer>").weight(8),
    row("DECRBY <string> <integer>"),
    row("INCRBYFLOAT <string> <float>").weight(8),
    row("SET <tiny> <short>"),
    row("APPEND <tiny> <short>"),
    row("LCS <tiny> <tiny> [LEN|IDX] [MINMATCHLEN <index>] [WITHMATCHLEN]"),
    row("LCS <string> <tiny>").weight(1),
    row("TTL <string>").by(Rule::Seconds),
];

pub(super) const BITMAP: &[Row] = &[
    row("SETBIT <bits> <bit> (0|1|1|1)").weight(20),
    row("SETBIT <bits> <integer> <integer>").weight(1),
    row("GETBIT <bits> <bit>").weight(8),
    row("BITCOUNT <bits>"),
    row("BITCOUNT <bits> <index> <index> [BYTE|BIT]").weight(8),
    row("BITPOS <bits> (0|1)"),
    row("BITPOS <bits> (0|1) <index>"),
    row("BITPOS <bits> (0|1) <index> <index> [BYTE|BIT]").weight(8),
    row("BITOP (AND|OR|XOR) <bits> {<bits>}").weight(8),
    row("BITOP NOT <bits> <bits>"),
    row("BITOP (DIFF|DIFF1|ANDOR|ONE) <bits> {<bits>}").weight(8),
    row("BITFIELD <bits> GET <bit-type> <bit-field-offset>"),
    row("BITFIELD <bits> SET <bit-type> <bit-field-offset> <integer>").weight(6),
    row("BITFIELD <bits> [OVERFLOW (WRAP|SAT|FAIL)] INCRBY <bit-type> <bit-field-offset> <integer>")
        .weight(8),
    row("BITFIELD <bits> {(GET <bit-type> <bit-field-offset>|SET <bit-type> <bit-field-offset> <integer>\
         |OVERFLOW (WRAP|SAT|FAIL) INCRBY <bit-type> <bit-field-offset> <integer>)}")
        .weight(8),
    row("BITFIELD <bits>").weight(1),
    row("BITFIELD_RO <bits> {GET <bit-type> <bit-field-offset>}"),
    row("BITFIELD_RO <bits> SET u8 0 1").weight(1),
    row("GET <bits>"),
    row("STRLEN <bits>"),
    row("SET <bits> <value>"),
    row("SETRANGE <bits> <offset> <value>"),
    row("INCR <bits>").weight(1),
];

pub(super) const HYPERLOGLOG: &[Row] = &[
    row("PFADD <hll> {<member>}").weight(20),
    row("PFADD <hll> {<integer>}").weight(8),
    row("PFADD <hll>").weight(2),
    row("PFCOUNT <hll>").weight(12),
    row("PFCOUNT {<hll>}").weight(6),
    row("PFMERGE <hll> {<hll>}").weight(6),
    row("PFMERGE <hll>").weight(1),
    row("PFDEBUG ENCODING <hll>"),
    row("PFDEBUG DECODE <hll>").weight(1),
    row("PFDEBUG GETREG <hll>").weight(1),
    row("PFDEBUG TODENSE <hll>").weight(1),
    row("PFDEBUG <short> <hll>").weight(1),
    row("GET <hll>"),
    row("STRLEN <hll>"),
    row("SET <hll> <value>").weight(1),
    row("SETRANGE <hll> <offset> <short>").weight(1),
    row("APPEND <hll> <short>").weight(1),
];
