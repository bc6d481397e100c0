//! XREAD and XREADGROUP, which may wait.
//!
//! Who waits leaves with the share of each key what it has read so far. Whoever adds an entry there
//! serves all who wait for it when the whole unit of work is over, with what all streams at hand have
//! by then. Who waits as a member of a group is told, too, when the group goes.

use std::sync::Arc;

use engine::{Delivery, Key, Partition, StreamId};

use super::reply::{answer_entries, answer_entry, answer_id};
use super::{id, no_group};
use crate::blocking::{Blocked, Claim, Waiter};
use crate::command::args::Args;
use crate::command::dispatch::{CommandCtx, CommandResult, answer_error};
use crate::command::error::{CommandError, SYNTAX};
use crate::keyspace::Keyspace;
use crate::resp::{Protocol, Reply};
use crate::state::ShardState;

/// Where reading a stream goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// Behind this id; for a member of a group, behind it among what is pending.
    Id(StreamId),
    /// At the last entry.
    BeforeLast,
    /// Behind what the group was given.
    Group,
}

/// The member of a group that reads.
#[derive(Debug)]
struct Member {
    group: Box<[u8]>,
    consumer: Box<[u8]>,
    no_ack: bool,
}

/// What a client reads, or waits for.
#[derive(Debug)]
pub struct Read {
    keys: Vec<(Box<[u8]>, After)>,
    count: usize,
    member: Option<Member>,
    /// The row of the command, which counts its failures.
    row: u16,
}

impl Read {
    /// Whether a member of a group reads.
    pub fn is_of_member(&self) -> bool {
        self.member.is_some()
    }
}

/// The options of XREAD and XREADGROUP.
#[derive(Default)]
struct Options<'a> {
    /// Whether it waits, and until when if not for ever.
    block: Option<Option<u64>>,
    count: usize,
    member: Option<(&'a [u8], &'a [u8])>,
    no_ack: bool,
    /// Where the keys start, and how many there are.
    keys_at: usize,
    keys: usize,
}

impl<'a> Options<'a> {
    fn parse(args: Args<'a>, is_group: bool, now_ms: u64) -> Result<Self, CommandError> {
        const GROUP_ONLY: CommandError = CommandError::new(
            "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.",
        );
        const NO_ACK_ONLY: CommandError = CommandError::new(
            "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.",
        );
        let mut options = Self::default();
        let mut at = 1;
        while at < args.len() && options.keys_at == 0 {
            let values = args.len() - 1 - at;
            if values > 0 && args.is(at, "block") {
                options.block = Some(args.until_ms(at + 1, now_ms)?);
                at += 2;
            } else if values > 0 && args.is(at, "count") {
                options.count = usize::try_from(args.integer(at + 1)?).unwrap_or(0);
                at += 2;
            } else if values > 0 && args.is(at, "streams") {
                if !values.is_multiple_of(2) {
                    return Err(unbalanced(is_group));
                }
                (options.keys_at, options.keys) = (at + 1, values / 2);
            } else if values > 1 && args.is(at, "group") {
                if !is_group {
                    return Err(GROUP_ONLY);
                }
                options.member = Some((args.get(at + 1), args.get(at + 2)));
                at += 3;
            } else if args.is(at, "noack") {
                if !is_group {
                    return Err(NO_ACK_ONLY);
                }
                options.no_ack = true;
                at += 1;
            } else {
                return Err(SYNTAX);
            }
        }
        if options.keys_at == 0 {
            return Err(SYNTAX);
        }
        if is_group && options.member.is_none() {
            return Err(CommandError::new("ERR Missing GROUP option for XREADGROUP"));
        }
        Ok(options)
    }
}

fn unbalanced(is_group: bool) -> CommandError {
    CommandError::new(if is_group {
        "ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be \
         specified."
    } else {
        "ERR Unbalanced 'xread' list of streams: for each stream key an ID, '+', or '$' must be \
         specified."
    })
}

/// Where reading goes on for a client that reads for itself.
fn after(
    partition: &mut Partition,
    db: usize,
    key: &Key<'_>,
    text: &[u8],
) -> Result<After, CommandError> {
    const GROUPS_ONLY: CommandError = CommandError::new(
        "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> \
         <consumer> option.",
    );
    let last_id = partition.stream(db, key)?.map(|stream| stream.last_id());
    match text {
        b"$" => Ok(After::Id(last_id.unwrap_or(StreamId::MIN))),
        b"+" => Ok(After::BeforeLast),
        b">" => Err(GROUPS_ONLY),
        text => Ok(After::Id(id::strict(text, 0)?)),
    }
}

/// Where reading goes on for a member of a group.
fn after_in_group(
    partition: &mut Partition,
    db: usize,
    key: &Key<'_>,
    group: &[u8],
    text: &[u8],
) -> Result<After, CommandError> {
    let found = partition.stream(db, key)?.and_then(|stream| stream.group(group));
    if found.is_none() {
        return Err(missing(key.bytes, group));
    }
    match text {
        b"$" | b"+" => {
            let sign = char::from(text[0]);
            Err(CommandError::text(format!(
                "ERR The {sign} ID is meaningless in the context of XREADGROUP: you want to read \
                 the history of this consumer by specifying a proper ID, or use the > ID to get \
                 new messages. The {sign} ID would just return an empty result set."
            )))
        }
        b">" => Ok(After::Group),
        text => Ok(match id::strict(text, 0)? {
            StreamId::MAX => After::Group,
            id => After::Id(id),
        }),
    }
}

fn missing(key: &[u8], group: &[u8]) -> CommandError {
    no_group("No such key", key, "consumer group", group, " in XREADGROUP with GROUP option")
}

pub(super) fn xread(ctx: &mut CommandCtx<'_>) -> CommandResult {
    read(ctx, false)
}

pub(super) fn xreadgroup(ctx: &mut CommandCtx<'_>) -> CommandResult {
    read(ctx, true)
}

fn read(ctx: &mut CommandCtx<'_>, is_group: bool) -> CommandResult {
    let (db, args) = (ctx.client.db, ctx.args);
    let options = Options::parse(args, is_group, ctx.shard.now_ms())?;
    let mut keys = Vec::with_capacity(options.keys);
    for index in options.keys_at..options.keys_at + options.keys {
        let key = ctx.key(index);
        let (partition, text) = (ctx.keyspace.of(&key), args.get(index + options.keys));
        let after = match options.member {
            Some((group, _)) => after_in_group(partition, db, &key, group, text)?,
            None => after(partition, db, &key, text)?,
        };
        keys.push((Box::from(key.bytes), after));
    }
    let member = options.member.map(|(group, consumer)| Member {
        group: group.into(),
        consumer: consumer.into(),
        no_ack: options.no_ack,
    });
    let count = if options.count == 0 { usize::MAX } else { options.count };
    let read = Read { keys, count, member, row: ctx.entry.id };
    if answer(ctx.keyspace, ctx.reply, db, &read)? {
        return Ok(());
    }
    match options.block {
        Some(until_ms) if ctx.may_block() => wait(ctx, until_ms, read),
        _ => ctx.reply.null_array(),
    }
    Ok(())
}

/// Blocks the client until one of the streams has something for it.
fn wait(ctx: &mut CommandCtx<'_>, until_ms: Option<u64>, read: Read) {
    let (claim, read, db) = (Claim::default(), Arc::new(read), ctx.client.db);
    for (name, _) in &read.keys {
        let key = ctx.keyspace.key(name);
        let waiter = Waiter {
            home: ctx.client.home.unwrap_or(ctx.shard.index),
            conn: ctx.client.conn,
            protocol: ctx.client.protocol,
            claim: claim.clone(),
            keys: Arc::default(),
            want: Arc::clone(&read),
        };
        let share = ctx.keyspace.share_of(&key);
        share.stream_waiters.add(db, name, waiter);
        share.update_listening();
    }
    let mut on_timeout = Reply::new(Vec::new(), ctx.client.protocol);
    on_timeout.null_array();
    let on_timeout = on_timeout.into_bytes();
    ctx.block(Blocked { claim, until_ms, on_timeout, request: Vec::new() });
}

/// Answers what the streams at hand have; false, and no answer, if that is nothing.
fn answer(
    keyspace: &mut Keyspace,
    reply: &mut Reply,
    db: usize,
    read: &Read,
) -> Result<bool, CommandError> {
    let (start, before) = (reply.defer(), reply.len());
    let mut answered = 0;
    for (name, after) in &read.keys {
        let key = keyspace.key(name);
        if !keyspace.has(keyspace.owner(&key)) {
            continue;
        }
        let partition = keyspace.of(&key);
        let at = reply.len();
        if reply.protocol() == Protocol::Resp2 {
            reply.array(2);
        }
        reply.bulk(name);
        let has_entries = match &read.member {
            None => answer_new(partition, reply, db, &key, *after, read.count)?,
            Some(member) => {
                let mut part = Part { partition: &mut *partition, db, key: &key, member };
                part.answer(reply, *after, read.count)?
            }
        };
        if has_entries {
            answered += 1;
        } else {
            reply.truncate(at);
        }
    }
    match (answered, reply.protocol()) {
        (0, _) => reply.truncate(before),
        (_, Protocol::Resp2) => reply.finish_array(start, answered),
        (_, Protocol::Resp3) => reply.finish_map(start, answered),
    }
    Ok(answered > 0)
}

/// The id where a client that reads for itself goes on, if there is any entry from there on.
fn first_new(
    partition: &mut Partition,
    db: usize,
    key: &Key<'_>,
    after: After,
) -> Result<Option<StreamId>, CommandError> {
    let Some(stream) = partition.stream_look(db, key)? else { return Ok(None) };
    let first = match after {
        After::Id(id) => id.next().and_then(|id| stream.range(id, StreamId::MAX).next()),
        _ => stream.range_back(StreamId::MIN, StreamId::MAX).next(),
    };
    Ok(first.map(|entry| entry.id))
}

fn answer_new(
    partition: &mut Partition,
    reply: &mut Reply,
    db: usize,
    key: &Key<'_>,
    after: After,
    count: usize,
) -> Result<bool, CommandError> {
    let Some(first) = first_new(partition, db, key, after)? else { return Ok(false) };
    if let Some(stream) = partition.stream(db, key)? {
        answer_entries(reply, stream.range(first, StreamId::MAX), count);
    }
    Ok(true)
}

/// One stream as a member of a group reads it.
struct Part<'p> {
    partition: &'p mut Partition,
    db: usize,
    key: &'p Key<'p>,
    member: &'p Member,
}

impl Part<'_> {
    fn answer(
        &mut self,
        reply: &mut Reply,
        after: After,
        count: usize,
    ) -> Result<bool, CommandError> {
        let (db, key) = (self.db, self.key);
        let Member { group, consumer, .. } = self.member;
        if !self.partition.consumer_create(db, key, group, consumer)? {
            self.partition.consumer_see(db, key, group, consumer, false)?;
        }
        match after {
            After::Id(id) => {
                self.answer_history(reply, id, count)?;
                Ok(true)
            }
            _ => self.answer_new(reply, count),
        }
    }

    fn answer_new(&mut self, reply: &mut Reply, count: usize) -> Result<bool, CommandError> {
        let (db, key) = (self.db, self.key);
        let Member { group, consumer, no_ack } = self.member;
        let Some(stream) = self.partition.stream(db, key)? else { return Ok(false) };
        let last_id = stream.group(group).ok_or_else(|| missing(key.bytes, group))?.last_id();
        let Some(first) = last_id.next() else { return Ok(false) };
        let mut ids = Vec::new();
        let entries = stream.range(first, StreamId::MAX).inspect(|entry| ids.push(entry.id));
        if answer_entries(reply, entries, count) == 0 {
            return Ok(false);
        }
        self.partition.group_read(db, key, group, consumer, &ids, *no_ack)?;
        Ok(true)
    }

    /// Answers what is pending for the consumer, which counts as delivered once more.
    fn answer_history(
        &mut self,
        reply: &mut Reply,
        after: StreamId,
        count: usize,
    ) -> Result<(), CommandError> {
        let (db, key, seen_ms) = (self.db, self.key, self.partition.now_ms());
        let Member { group, consumer, .. } = self.member;
        let Some(stream) = self.partition.stream(db, key)? else { return Ok(()) };
        let Some(known) = stream.group(group) else { return Ok(()) };
        let ids = known.consumer(consumer).into_iter();
        let ids = ids.flat_map(|known| known.pending_from(after.next().unwrap_or(after)));
        let (start, mut answered, mut entries) = (reply.defer(), 0, Vec::new());
        for id in ids.take(count) {
            answered += 1;
            match stream.get(id) {
                Some(entry) => {
                    answer_entry(reply, entry);
                    let deliveries = known.pending(id).map_or(0, |pending| pending.deliveries);
                    entries.push((id, seen_ms, deliveries.wrapping_add(1)));
                }
                None => {
                    reply.array(2);
                    answer_id(reply, id);
                    reply.null_array();
                }
            }
        }
        reply.finish_array(start, answered);
        let (last_id, entries_read) = (known.last_id(), known.entries_read());
        if !entries.is_empty() {
            let delivery = Delivery {
                group,
                consumer,
                entries: &entries,
                last_id,
                entries_read,
                seen_ms,
                is_active: false,
            };
            self.partition.stream_deliver(db, key, &delivery, 0)?;
        }
        Ok(())
    }
}

/// Whether a stream has something for a client that waits, or an error.
fn is_due(partition: &mut Partition, db: usize, key: &Key<'_>, read: &Read) -> bool {
    let mut of_key = read.keys.iter().filter(|(name, _)| **name == *key.bytes);
    of_key.any(|(_, after)| match &read.member {
        None => first_new(partition, db, key, *after).is_ok_and(|first| first.is_some()),
        Some(member) => {
            let Ok(Some(stream)) = partition.stream_look(db, key) else { return true };
            let Some(group) = stream.group(&member.group) else { return true };
            let first = group.last_id().next();
            first.is_some_and(|first| stream.range(first, StreamId::MAX).next().is_some())
        }
    })
}

/// Whether all that a member of a group waits for is still there.
fn check_member(keyspace: &mut Keyspace, db: usize, read: &Read) -> CommandResult {
    let Some(member) = &read.member else { return Ok(()) };
    for (name, _) in &read.keys {
        let key = keyspace.key(name);
        if keyspace.has(keyspace.owner(&key)) {
            after_in_group(keyspace.of(&key), db, &key, &member.group, b">")?;
        }
    }
    Ok(())
}

impl Keyspace {
    /// Serves those who wait for a stream of a share that is at hand.
    pub fn serve_streams(&mut self, state: &mut ShardState, shard: usize, db: usize, name: &[u8]) {
        let key = self.key(name);
        let mut passed = 0;
        loop {
            let share = self.share_mut(shard);
            let partition = &mut share.partition;
            let due = |read: &Arc<Read>| is_due(partition, db, &key, read);
            let Some(waiter) = share.stream_waiters.claim_if(db, name, &mut passed, due) else {
                break;
            };
            let mut reply = Reply::new(Vec::new(), waiter.protocol);
            let read = Arc::clone(&waiter.want);
            let served =
                check_member(self, db, &read).and_then(|()| answer(self, &mut reply, db, &read));
            if let Err(error) = served {
                reply = Reply::new(Vec::new(), waiter.protocol);
                state.stats.commands[usize::from(read.row)].failed += 1;
                answer_error(&error, &mut reply, state);
            }
            state.serve(&waiter, reply.into_bytes());
        }
        self.share_mut(shard).update_listening();
    }
}
