//! Streams, with their groups and consumers.

use super::{Row, row};
use crate::differential::rule::Rule;

/// Groups to read by from the start.
pub(super) const FIRST: &[&str] = &[
    "XGROUP CREATE x:0 g1 0",
    "XGROUP CREATE x:1 g1 0 MKSTREAM",
    "XGROUP CREATE x:1 g2 $",
    "XGROUP CREATE x:2 g1 0 MKSTREAM",
];

pub(super) const STREAM: &[Row] = &[
    row("XADD <stream> <new-id> {<member> <short>}").weight(24),
    row("XADD <stream> <new-id> {<member> <value>}").weight(8),
    row("XADD <stream> [NOMKSTREAM] [KEEPREF|DELREF|ACKED] [MAXLEN [=] <count>|MINID [=] <bare-id>] \
         <new-id> {<member> <short>}")
        .weight(6),
    row("XADD <stream> [KEEPREF|DELREF|ACKED] (MAXLEN|MINID) ~ <count> [LIMIT <count>] <new-id> <member> <short>"),
    row("XADD <stream> [MAXLEN <count>] * {<member> <short>}").by(Rule::AutoId).weight(1).intact(),
    row("XLEN <stream>").weight(2),
    row("XRANGE <stream> <id-bound> <id-bound> [COUNT <count>]"),
    row("XREVRANGE <stream> <id-bound> <id-bound> [COUNT <count>]"),
    row("XDEL <stream> {<id>}").weight(6),
    row("XDELEX <stream> [KEEPREF|DELREF|ACKED] IDS #{<id>}").weight(6),
    row("XTRIM <stream> (MAXLEN [=] <count>|MINID [=] <bare-id>) [KEEPREF|DELREF|ACKED]").weight(3),
    row("XTRIM <stream> (MAXLEN ~ <count>|MINID ~ <bare-id>) [LIMIT <count>] [KEEPREF|DELREF|ACKED]"),
    row("XREAD [COUNT <count>] STREAMS <streams-and-ids>"),
    row("XREAD [COUNT <count>] BLOCK <wait-ms> STREAMS <streams-and-ids>").weight(2),
    row("XGROUP CREATE <stream> <group> (<bare-id>|$|0) [MKSTREAM] [ENTRIESREAD <index>]").weight(8),
    row("XGROUP SETID <stream> <group> (<bare-id>|$|0) [ENTRIESREAD <index>]").weight(3),
    row("XGROUP DESTROY <stream> <group>").weight(2),
    row("XGROUP CREATECONSUMER <stream> <group> <consumer>").weight(3),
    row("XGROUP DELCONSUMER <stream> <group> <consumer>").weight(2),
    row("XREADGROUP GROUP <group> <consumer> [COUNT <count>] [NOACK] STREAMS <streams-for-group>").weight(20),
    row("XREADGROUP GROUP <group> <consumer> [COUNT <count>] BLOCK <wait-ms> [NOACK] STREAMS <streams-for-group>")
        .weight(3),
    row("XACK <stream> <group> {<id>}").weight(6),
    row("XACKDEL <stream> <group> [KEEPREF|DELREF|ACKED] IDS #{<id>}").weight(6),
    row("XPENDING <stream> <group>"),
    row("XPENDING <stream> <group> [IDLE <idle-ms>] <id-bound> <id-bound> <count> [<consumer>]")
        .by(Rule::Pending),
    row("XCLAIM <stream> <group> <consumer> <idle-ms> {<id>} [IDLE <idle-ms>] [RETRYCOUNT <count>] [FORCE] \
         [JUSTID] [LASTID <id>]")
        .weight(6),
    row("XCLAIM <stream> <group> <consumer> 0 <id> TIME <at-ms> FORCE").weight(1),
    row("XAUTOCLAIM <stream> <group> <consumer> <idle-ms> <bare-id> [COUNT <count>] [JUSTID]").weight(6),
    row("XSETID <stream> <id>").weight(1),
    row("XSETID <stream> <id> ENTRIESADDED <count> MAXDELETEDID <id>").weight(1),
    row("XINFO STREAM <stream>").by(Rule::Details),
    row("XINFO STREAM <stream> FULL [COUNT <count>]").by(Rule::Details),
    row("XINFO GROUPS <stream>").by(Rule::Details),
    row("XINFO CONSUMERS <stream> <group>").by(Rule::Details),
];
