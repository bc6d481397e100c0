//! CLIENT LIST and CLIENT INFO: a line about each connection, in the form that libraries parse.

use std::fmt::Write;

use crate::command::args::Args;
use crate::command::dispatch::{CommandCtx, CommandResult};
use crate::command::error::{CommandError, SYNTAX};
use crate::conn::{Client, Stall};
use crate::input::Core;
use crate::pubsub::Kind;
use crate::resp::Protocol;
use crate::state::ShardState;
use crate::survey::Report;

/// What kind of connection a client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientType {
    Normal,
    Replica,
    PubSub,
    Master,
}

impl ClientType {
    /// The type that a word names.
    ///
    /// # Errors
    /// The text about an unknown type.
    pub(super) fn from_word(word: &[u8]) -> Result<Self, CommandError> {
        match word.to_ascii_lowercase().as_slice() {
            b"normal" => Ok(Self::Normal),
            b"slave" | b"replica" => Ok(Self::Replica),
            b"pubsub" => Ok(Self::PubSub),
            b"master" => Ok(Self::Master),
            _ => Err(CommandError::naming("ERR Unknown client type '", word, "'")),
        }
    }

    /// The type of a client.
    pub(super) fn of(client: &Client) -> Self {
        // Replication, which makes the others, is not there yet.
        if client.subscribed.is_some() { Self::PubSub } else { Self::Normal }
    }
}

pub(super) fn info(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let mut text = Vec::new();
    own_line(ctx, &mut text);
    ctx.reply.verbatim(b"txt", &text);
    Ok(())
}

/// Which clients CLIENT LIST is about.
enum Wanted {
    All,
    Kind(ClientType),
    Ids(Vec<i64>),
}

impl Wanted {
    fn parse(args: Args<'_>) -> Result<Self, CommandError> {
        match args.len() {
            2 => Ok(Self::All),
            4 if args.is(2, "type") => Ok(Self::Kind(ClientType::from_word(args.get(3))?)),
            4.. if args.is(2, "id") => {
                let id = |word| {
                    encodings::integer::parse_i64(word)
                        .ok_or(CommandError::new("ERR Invalid client ID"))
                };
                Ok(Self::Ids(args.from(3).map(id).collect::<Result<_, _>>()?))
            }
            _ => Err(SYNTAX),
        }
    }

    fn fits(&self, client: &Client) -> bool {
        match self {
            Self::All => true,
            Self::Kind(kind) => ClientType::of(client) == *kind,
            Self::Ids(ids) => ids.contains(&(client.id as i64)),
        }
    }

    /// Lines about the clients of a shard that fit, save the one whose command runs.
    fn lines(&self, state: &ShardState) -> Vec<(u64, Vec<u8>)> {
        let fit = state.clients.iter().filter(|client| self.fits(client));
        fit.map(|client| {
            let mut text = Vec::new();
            line(client, &Request::default(), state.now_ms(), &mut text);
            (client.id, text)
        })
        .collect()
    }
}

/// Describes the clients of another shard than the asking client's.
pub(super) fn survey(args: Args<'_>, core: &mut Core) -> Report {
    Report::Clients(Wanted::parse(args).map_or_else(|_| Vec::new(), |it| it.lines(&core.state)))
}

pub(super) fn list(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let wanted = Wanted::parse(ctx.args)?;
    let mut lines = wanted.lines(ctx.shard);
    if wanted.fits(ctx.client) {
        let mut text = Vec::new();
        own_line(ctx, &mut text);
        lines.push((ctx.client.id, text));
    }
    for report in ctx.reports() {
        if let Report::Clients(others) = report {
            lines.extend(others);
        }
    }
    // In the order in which they came, or were asked for.
    lines.sort_by_key(|(id, _)| *id);
    let text = match &wanted {
        Wanted::Ids(ids) => {
            let line_of = |id: &i64| lines.iter().find(|(other, _)| *other as i64 == *id);
            ids.iter().filter_map(line_of).flat_map(|(_, line)| line.clone()).collect()
        }
        _ => lines.into_iter().flat_map(|(_, line)| line).collect::<Vec<u8>>(),
    };
    ctx.reply.verbatim(b"txt", &text);
    Ok(())
}

/// What the line about the client at hand says of the command at hand.
#[derive(Default)]
struct Request {
    /// Its bytes on the wire.
    wire_len: usize,
    /// Bytes of its arguments.
    args_len: usize,
}

fn own_line(ctx: &CommandCtx<'_>, text: &mut Vec<u8>) {
    let request = Request { wire_len: wire_len(ctx.args), args_len: args_len(ctx.args) };
    line(ctx.client, &request, ctx.shard.now_ms(), text);
}

fn args_len(args: Args<'_>) -> usize {
    args.from(0).map(<[u8]>::len).sum()
}

/// Bytes of a request in its usual form.
fn wire_len(args: Args<'_>) -> usize {
    let header = |number: usize| number.to_string().len() + 3;
    header(args.len()) + args.from(0).map(|arg| header(arg.len()) + arg.len() + 2).sum::<usize>()
}

/// Writes the line of one client.
fn line(client: &Client, request: &Request, now_ms: u64, text: &mut Vec<u8>) {
    let seconds_since = |then_ms: u64| now_ms.saturating_sub(then_ms) / 1000;
    let (query, capacity) =
        client.query.as_ref().map_or((0, 0), |query| (query.len(), query.capacity()));
    let replies = &client.replies.bytes;
    let (output_len, (list_len, list_bytes)) = (client.output_len(), client.output_list());
    let memory = client.memory_bytes() + client.replies.shared_len() + request.args_len;
    // The command at hand is counted when it has run.
    let running = u64::from(request.wire_len > 0);
    let mut head = String::new();
    let _ = write!(
        head,
        "id={} addr={} laddr={} fd={} name=",
        client.id, client.address, client.local_address, client.descriptor
    );
    text.extend_from_slice(head.as_bytes());
    text.extend_from_slice(&client.name);
    let mut rest = String::new();
    let _ = write!(
        rest,
        " age={} idle={} flags={} db={} sub={} psub={} ssub={} multi={} watch={} qbuf={} qbuf-free={} \
         argv-mem={} multi-mem={} rbs={} rbp={} obl=0 oll={} omem={} tot-mem={} events={} cmd={} \
         user=default redir={} resp={} lib-name=",
        seconds_since(client.created_ms),
        seconds_since(client.active_ms),
        flags(client),
        client.db,
        client.subscribed(Kind::Channel),
        client.subscribed(Kind::Pattern),
        client.subscribed(Kind::ShardChannel),
        client.multi.as_ref().map_or(-1, |multi| multi.queued.len() as i64),
        client.watch.as_ref().map_or(0, |watch| watch.keys.len()),
        query + request.wire_len,
        capacity - query,
        request.args_len,
        client.multi.as_ref().map_or(0, |multi| multi.memory_bytes()),
        replies.capacity(),
        replies.capacity(),
        list_len,
        list_bytes,
        memory,
        if output_len > 0 && request.wire_len == 0 { "rw" } else { "r" },
        client.last_command.map_or("NULL", |entry| entry.name.as_str()),
        super::tracking::redirection(client),
        if client.protocol == Protocol::Resp3 { 3 } else { 2 },
    );
    text.extend_from_slice(rest.as_bytes());
    text.extend_from_slice(&client.lib_name);
    text.extend_from_slice(b" lib-ver=");
    text.extend_from_slice(&client.lib_version);
    let tail = format!(
        " io-thread=0 tot-net-in={} tot-net-out={} tot-cmds={}\n",
        client.net_input_bytes,
        client.net_output_bytes,
        client.commands - running.min(client.commands)
    );
    text.extend_from_slice(tail.as_bytes());
}

/// The letters that tell a client's state.
fn flags(client: &Client) -> String {
    let mut letters = String::new();
    let marks = [
        (client.monitors, 'O'),
        (client.subscribed.is_some(), 'P'),
        (client.multi.is_some(), 'x'),
        (client.blocked.is_some() || client.stall == Some(Stall::Paused), 'b'),
        (client.tracking.is_some(), 't'),
        (client.tracking.as_ref().is_some_and(|tracking| tracking.is_broken), 'R'),
        (client.tracking.as_ref().is_some_and(|tracking| tracking.broadcast), 'B'),
        (client.watch.as_ref().is_some_and(|watch| watch.is_dirty()), 'd'),
        (matches!(client.close, Some(netback::Close::AfterSends)), 'c'),
        (matches!(client.close, Some(netback::Close::Now)), 'A'),
        (client.is_unix, 'U'),
        (client.no_evict, 'e'),
        (client.no_touch, 'T'),
    ];
    letters.extend(marks.iter().filter(|(is_set, _)| *is_set).map(|(_, letter)| letter));
    if letters.is_empty() {
        letters.push('N');
    }
    letters
}

#[cfg(test)]
mod tests {
    use super::*;
    use netback::ConnId;

    #[test]
    fn a_line_has_every_field_in_its_place() {
        let mut client = Client::new(7, ConnId { index: 0, generation: 1 }, 1000);
        client.address = "127.0.0.1:5000".to_owned();
        client.local_address = "127.0.0.1:6379".to_owned();
        client.descriptor = 9;
        client.name = b"worker".to_vec();
        client.lib_name = b"lib".to_vec();
        client.no_touch = true;
        let mut text = Vec::new();
        line(&client, &Request { wire_len: 26, args_len: 10 }, 4500, &mut text);
        let text = String::from_utf8(text).expect("text");
        let tot_mem = client.memory_bytes() + 10;
        assert_eq!(
            text,
            format!(
                "id=7 addr=127.0.0.1:5000 laddr=127.0.0.1:6379 fd=9 name=worker age=3 idle=3 \
                 flags=T db=0 sub=0 psub=0 ssub=0 multi=-1 watch=0 qbuf=26 qbuf-free=0 argv-mem=10 \
                 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem={tot_mem} events=r cmd=NULL \
                 user=default redir=-1 resp=2 lib-name=lib lib-ver= io-thread=0 tot-net-in=0 \
                 tot-net-out=0 tot-cmds=0\n"
            )
        );
    }
}
