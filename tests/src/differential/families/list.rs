//! Lists.

use super::{Row, row};

pub(super) const LIST: &[Row] = &[
    row("LPUSH <list> {<member>}").weight(12),
    row("RPUSH <list> {<member>}").weight(12),
    row("RPUSH <list> {<value>}").weight(4),
    row("LPUSHX <list> {<member>}"),
    row("RPUSHX <list> {<member>}"),
    row("LPOP <list> [<count>]").weight(8),
    row("RPOP <list> [<count>]").weight(8),
    row("LLEN <list>"),
    row("LRANGE <list> <index> <index>").weight(6),
    row("LINDEX <list> <index>").weight(6),
    row("LSET <list> <index> <member>").weight(6),
    row("LSET <list> <index> <value>").weight(2),
    row("LINSERT <list> (BEFORE|AFTER) <member> <member>").weight(8),
    row("LREM <list> <index> <member>").weight(8),
    row("LTRIM <list> <index> <index>").weight(3),
    row("LPOS <list> <member> [RANK <index>] [COUNT <count>] [MAXLEN <count>]").weight(8),
    row("LMOVE <list> <list> (LEFT|RIGHT) (LEFT|RIGHT)").weight(6),
    row("RPOPLPUSH <list> <list>"),
    row("LMPOP #{<list>} (LEFT|RIGHT) [COUNT <count>]").weight(6),
    row("BLPOP {<list>} <wait>").weight(2),
    row("BRPOP {<list>} <wait>").weight(2),
    row("BLMOVE <list> <list> (LEFT|RIGHT) (LEFT|RIGHT) <wait>").weight(2),
    row("BRPOPLPUSH <list> <list> <wait>").weight(2),
    row("BLMPOP <wait> #{<list>} (LEFT|RIGHT) [COUNT <count>]").weight(2),
];
