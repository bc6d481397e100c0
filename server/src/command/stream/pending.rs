//! What is pending in a group: XPENDING, XCLAIM, XAUTOCLAIM.

use std::collections::BTreeMap;

use encodings::integer::parse_i64;
use encodings::stream::Entry;
use engine::{Delivery, Group, Stream, StreamId};

use super::id;
use super::key_or_group_missing;
use super::reply::{answer_entry, answer_id};
use crate::command::dispatch::{CommandCtx, CommandResult};
use crate::command::error::{CommandError, SYNTAX, c_string};
use crate::resp::Reply;

/// What XPENDING with a range asks for.
struct RangeArgs<'a> {
    idle_min_ms: u64,
    start: StreamId,
    end: StreamId,
    count: usize,
    consumer: Option<&'a [u8]>,
}

impl<'a> RangeArgs<'a> {
    /// Reads `[IDLE ms] start end count [consumer]`.
    fn parse(ctx: &CommandCtx<'a>) -> Result<Self, CommandError> {
        let args = ctx.args;
        if !(6..=9).contains(&args.len()) {
            return Err(SYNTAX);
        }
        let (mut first, mut idle_min_ms) = (3, 0);
        if args.is(3, "idle") {
            idle_min_ms = u64::try_from(args.integer(4)?).unwrap_or(0);
            first = 5;
            if args.len() < 8 {
                return Err(SYNTAX);
            }
        }
        let count = usize::try_from(args.integer(first + 2)?).unwrap_or(0);
        let (start, end) = (id::start(args.get(first))?, id::end(args.get(first + 1))?);
        let consumer = (first + 3 < args.len()).then(|| args.get(first + 3));
        Ok(Self { idle_min_ms, start, end, count, consumer })
    }
}

/// The stream and the group at arguments 1 and 2.
fn stream_with_group<'c>(
    ctx: &'c mut CommandCtx<'_>,
) -> Result<(Stream<'c>, &'c Group), CommandError> {
    let (key, db, group) = (ctx.key(1), ctx.client.db, ctx.args.get(2));
    let missing = key_or_group_missing(key.bytes, group);
    let stream = ctx.keyspace.stream(db, &key)?;
    stream.and_then(|stream| Some((stream, stream.group(group)?))).ok_or(missing)
}

pub(super) fn xpending(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let range = match ctx.args.len() {
        3 => None,
        _ => Some(RangeArgs::parse(ctx)?),
    };
    let now_ms = ctx.keyspace.now_ms();
    let mut reply = Reply::new(Vec::new(), ctx.reply.protocol());
    let (_, group) = stream_with_group(ctx)?;
    match range {
        None => answer_summary(&mut reply, group),
        Some(range) => answer_pending(&mut reply, group, &range, now_ms),
    }
    ctx.reply.raw(&reply.into_bytes());
    Ok(())
}

fn answer_summary(reply: &mut Reply, group: &Group) {
    reply.array(4);
    reply.count(group.pending_len());
    let Some((first, last)) = group.pending_ends() else {
        reply.null();
        reply.null();
        reply.null_array();
        return;
    };
    answer_id(reply, first);
    answer_id(reply, last);
    let (start, mut count) = (reply.defer(), 0);
    for consumer in group.consumers().filter(|consumer| consumer.pending_len() > 0) {
        reply.array(2);
        reply.bulk(consumer.name());
        reply.bulk_integer(consumer.pending_len() as i64);
        count += 1;
    }
    reply.finish_array(start, count);
}

fn answer_pending(reply: &mut Reply, group: &Group, range: &RangeArgs<'_>, now_ms: u64) {
    let consumer = match range.consumer {
        Some(name) => match group.consumer(name) {
            Some(consumer) => Some(consumer),
            None => return reply.array(0),
        },
        None => None,
    };
    let of_consumer = consumer.into_iter().flat_map(|consumer| {
        let ids = consumer.pending_from(range.start);
        ids.filter_map(|id| Some((id, group.pending(id)?)))
    });
    let of_group = consumer.is_none().then(|| group.pending_from(range.start));
    let entries = of_consumer.chain(of_group.into_iter().flatten());
    let idle_ms = |delivered_ms: u64| now_ms.saturating_sub(delivered_ms);
    let entries = entries
        .take_while(|(id, _)| *id <= range.end)
        .filter(|(_, pending)| idle_ms(pending.delivered_ms) >= range.idle_min_ms);
    let (start, mut count) = (reply.defer(), 0);
    for (id, pending) in entries.take(range.count) {
        reply.array(4);
        answer_id(reply, id);
        reply.bulk(group.consumer_of(pending).name());
        reply.integer(idle_ms(pending.delivered_ms) as i64);
        reply.integer(pending.deliveries as i64);
        count += 1;
    }
    reply.finish_array(start, count);
}

/// The options of XCLAIM.
#[derive(Default)]
struct ClaimArgs {
    ids: Vec<StreamId>,
    idle_min_ms: u64,
    delivered_ms: Option<i64>,
    deliveries: Option<u64>,
    makes_pending: bool,
    only_ids: bool,
    last_id: StreamId,
}

impl ClaimArgs {
    fn parse(ctx: &CommandCtx<'_>, now_ms: u64) -> Result<Self, CommandError> {
        let number = |text: &[u8], what: &'static str| {
            parse_i64(text).ok_or_else(|| {
                CommandError::text(format!("ERR Invalid {what} argument for XCLAIM"))
            })
        };
        let args = ctx.args;
        let mut parsed = Self::default();
        let idle = number(args.get(4), "min-idle-time")?;
        parsed.idle_min_ms = u64::try_from(idle).unwrap_or(0);
        let ids = args.from(5).map_while(|text| id::strict(text, 0).ok());
        parsed.ids = ids.collect();
        let mut cursor = args.cursor(5 + parsed.ids.len());
        while cursor.remaining() > 0 {
            if cursor.accept("force") {
                parsed.makes_pending = true;
            } else if cursor.accept("justid") {
                parsed.only_ids = true;
            } else if let Some(text) = cursor.accept_with_value("idle") {
                let idle = number(text, "IDLE option")?;
                parsed.delivered_ms = Some((now_ms as i64).wrapping_sub(idle));
            } else if let Some(text) = cursor.accept_with_value("time") {
                parsed.delivered_ms = Some(number(text, "TIME option")?);
            } else if let Some(text) = cursor.accept_with_value("retrycount") {
                let count = number(text, "RETRYCOUNT option")?;
                parsed.deliveries = u64::try_from(count).ok();
            } else if let Some(text) = cursor.accept_with_value("lastid") {
                parsed.last_id = id::strict(text, 0)?;
            } else {
                let option = c_string(args.get(cursor.position()));
                let text = [b"ERR Unrecognized XCLAIM option '", option, b"'"].concat();
                return Err(CommandError::text(text));
            }
        }
        Ok(parsed)
    }
}

/// What a claim takes, and what it finds gone.
#[derive(Default)]
struct Claimed {
    /// What the consumer has now, each once, with its time and how often it was delivered.
    entries: BTreeMap<StreamId, (u64, u64)>,
    /// What was pending and is in the stream no more.
    gone: Vec<StreamId>,
}

/// Gives a consumer what was claimed, in the group at arguments 1 and 2.
fn take(ctx: &mut CommandCtx<'_>, claimed: &Claimed, last_id: StreamId) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let (group, consumer, seen_ms) = (args.get(2), args.get(3), ctx.keyspace.now_ms());
    let is_new = ctx.keyspace.consumer_create(db, &key, group, consumer)?;
    ctx.keyspace.stream_ack(db, &key, group, &claimed.gone)?;
    let (_, known) = stream_with_group(ctx)?;
    let (known_last, entries_read) = (known.last_id(), known.entries_read());
    if claimed.entries.is_empty() && last_id <= known_last {
        if !is_new {
            ctx.keyspace.consumer_see(db, &key, group, consumer, false)?;
        }
        return Ok(());
    }
    let entries: Vec<_> = claimed.entries.iter().map(|(id, (ms, n))| (*id, *ms, *n)).collect();
    let delivery = Delivery {
        group,
        consumer,
        entries: &entries,
        last_id: last_id.max(known_last),
        entries_read,
        seen_ms,
        is_active: !entries.is_empty(),
    };
    ctx.keyspace.stream_deliver(db, &key, &delivery, entries.len().max(1))?;
    Ok(())
}

/// Claims the entries that are named, and answers them.
fn claim_named(
    reply: &mut Reply,
    stream: &Stream<'_>,
    group: &Group,
    parsed: &ClaimArgs,
    now_ms: u64,
) -> Claimed {
    let delivered_ms = parsed.delivered_ms.and_then(|ms| u64::try_from(ms).ok());
    let delivered_ms = delivered_ms.filter(|ms| *ms <= now_ms).unwrap_or(now_ms);
    let mut claimed = Claimed::default();
    let (start, mut answered) = (reply.defer(), 0);
    for id in &parsed.ids {
        let pending = group.pending(*id).map(|pending| (pending.delivered_ms, pending.deliveries));
        let Some(entry) = stream.get(*id) else {
            if pending.is_some() && !claimed.gone.contains(id) {
                claimed.gone.push(*id);
            }
            continue;
        };
        let deliveries = match claimed.entries.get(id).copied().or(pending) {
            Some((ms, _)) if now_ms.saturating_sub(ms) < parsed.idle_min_ms => continue,
            Some((_, deliveries)) => deliveries,
            None if parsed.makes_pending => 1,
            None => continue,
        };
        let more = deliveries.wrapping_add(u64::from(!parsed.only_ids));
        claimed.entries.insert(*id, (delivered_ms, parsed.deliveries.unwrap_or(more)));
        answered += 1;
        answer_claimed(reply, entry, parsed.only_ids);
    }
    reply.finish_array(start, answered);
    claimed
}

fn answer_claimed(reply: &mut Reply, entry: Entry<'_>, only_ids: bool) {
    if only_ids {
        answer_id(reply, entry.id);
    } else {
        answer_entry(reply, entry);
    }
}

pub(super) fn xclaim(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let now_ms = ctx.keyspace.now_ms();
    stream_with_group(ctx)?;
    let parsed = ClaimArgs::parse(ctx, now_ms)?;
    let mut reply = Reply::new(Vec::new(), ctx.reply.protocol());
    let (stream, group) = stream_with_group(ctx)?;
    let claimed = claim_named(&mut reply, &stream, group, &parsed, now_ms);
    ctx.reply.raw(&reply.into_bytes());
    take(ctx, &claimed, parsed.last_id)
}

/// The options of XAUTOCLAIM.
struct AutoArgs {
    idle_min_ms: u64,
    start: StreamId,
    count: usize,
    only_ids: bool,
}

impl AutoArgs {
    fn parse(ctx: &CommandCtx<'_>) -> Result<Self, CommandError> {
        const COUNT_MAX: i64 = i64::MAX / 16;
        const NO_IDLE: CommandError =
            CommandError::new("ERR Invalid min-idle-time argument for XAUTOCLAIM");
        const NO_COUNT: CommandError = CommandError::new("ERR COUNT must be > 0");
        let args = ctx.args;
        let idle = parse_i64(args.get(4)).ok_or(NO_IDLE)?;
        let start = id::start(args.get(5))?;
        let idle_min_ms = u64::try_from(idle).unwrap_or(0);
        let mut parsed = Self { idle_min_ms, start, count: 100, only_ids: false };
        let mut cursor = args.cursor(6);
        while cursor.remaining() > 0 {
            if let Some(text) = cursor.accept_with_value("count") {
                let count = parse_i64(text).filter(|count| (1..=COUNT_MAX).contains(count));
                parsed.count = count.ok_or(NO_COUNT)? as usize;
            } else if cursor.accept("justid") {
                parsed.only_ids = true;
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(parsed)
    }
}

/// Claims what is pending from an id on, and answers it; where to go on then.
fn claim_pending(
    reply: &mut Reply,
    stream: &Stream<'_>,
    group: &Group,
    parsed: &AutoArgs,
    now_ms: u64,
) -> (Claimed, StreamId) {
    /// Pending entries that are looked at for each that is asked for.
    const ATTEMPTS: usize = 10;
    let (mut claimed, mut left) = (Claimed::default(), parsed.count);
    let mut attempts = parsed.count.saturating_mul(ATTEMPTS);
    let mut pending = group.pending_from(parsed.start);
    while attempts > 0
        && left > 0
        && let Some((id, known)) = pending.next()
    {
        attempts -= 1;
        let Some(entry) = stream.get(id) else {
            claimed.gone.push(id);
            left -= 1;
            continue;
        };
        if now_ms.saturating_sub(known.delivered_ms) < parsed.idle_min_ms {
            continue;
        }
        let deliveries = known.deliveries.wrapping_add(u64::from(!parsed.only_ids));
        claimed.entries.insert(id, (now_ms, deliveries));
        left -= 1;
        answer_claimed(reply, entry, parsed.only_ids);
    }
    let next = pending.next().map_or(StreamId::MIN, |(id, _)| id);
    (claimed, next)
}

pub(super) fn xautoclaim(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let now_ms = ctx.keyspace.now_ms();
    let parsed = AutoArgs::parse(ctx)?;
    let mut entries = Reply::new(Vec::new(), ctx.reply.protocol());
    let (stream, group) = stream_with_group(ctx)?;
    let (claimed, next) = claim_pending(&mut entries, &stream, group, &parsed, now_ms);
    ctx.reply.array(3);
    answer_id(ctx.reply, next);
    ctx.reply.array(claimed.entries.len());
    ctx.reply.raw(&entries.into_bytes());
    ctx.reply.array(claimed.gone.len());
    claimed.gone.iter().for_each(|id| answer_id(ctx.reply, *id));
    take(ctx, &claimed, StreamId::MIN)
}
