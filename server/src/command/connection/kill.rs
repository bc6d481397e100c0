//! CLIENT KILL: closing connections by address or by filters.

use netback::Close;

use super::auth::DEFAULT_USER;
use super::list::ClientType;
use crate::command::args::Args;
use crate::command::dispatch::{CommandCtx, CommandResult};
use crate::command::error::{CommandError, SYNTAX};
use crate::conn::Client;
use crate::input::Core;
use crate::state::ShardState;
use crate::survey::Report;

/// What the connections to be closed have in common.
#[derive(Debug, Default)]
struct Filter<'a> {
    id: Option<i64>,
    address: Option<&'a [u8]>,
    local_address: Option<&'a [u8]>,
    kind: Option<ClientType>,
    max_age_s: Option<u64>,
    spares_me: bool,
}

impl Filter<'_> {
    fn fits(&self, client: &Client, now_ms: u64) -> bool {
        let age_s = now_ms.saturating_sub(client.created_ms) / 1000;
        self.id.is_none_or(|id| client.id as i64 == id)
            && self.address.is_none_or(|address| client.address.as_bytes() == address)
            && self.local_address.is_none_or(|local| client.local_address.as_bytes() == local)
            && self.kind.is_none_or(|kind| ClientType::of(client) == kind)
            && self.max_age_s.is_none_or(|max_s| age_s >= max_s)
    }
}

pub(super) fn kill(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let by_address = ctx.args.len() == 3;
    let filter = parse(ctx.args)?;
    let me = !filter.spares_me && filter.fits(ctx.client, ctx.shard.now_ms());
    let elsewhere = ctx.reports().into_iter().map(|report| match report {
        Report::Count(count) => count,
        _ => 0,
    });
    let elsewhere: usize = elsewhere.sum();
    let killed = elsewhere + close_all(&filter, ctx.shard) + usize::from(me);
    if me {
        // The reply still leaves.
        ctx.client.close = Some(Close::AfterSends);
    }
    match (by_address, killed) {
        (true, 0) => return Err(CommandError::new("ERR No such client")),
        (true, _) => ctx.reply.ok(),
        (false, _) => ctx.reply.count(killed),
    }
    Ok(())
}

/// Closes the clients of a shard that fit, save the one whose command runs.
fn close_all(filter: &Filter<'_>, shard: &mut ShardState) -> usize {
    let now_ms = shard.now_ms();
    let fit = shard.clients.iter().filter(|client| filter.fits(client, now_ms));
    let fit: Vec<_> = fit.map(|client| client.conn).collect();
    fit.iter().for_each(|conn| shard.close_other(*conn, Close::Now));
    fit.len()
}

/// Closes the clients of another shard than the asking client's.
pub(super) fn survey(args: Args<'_>, core: &mut Core) -> Report {
    Report::Count(parse(args).map_or(0, |filter| close_all(&filter, &mut core.state)))
}

fn parse(args: Args<'_>) -> Result<Filter<'_>, CommandError> {
    if args.len() == 3 {
        return Ok(Filter { address: Some(args.get(2)), ..Filter::default() });
    }
    let mut filter = Filter { spares_me: true, ..Filter::default() };
    let mut index = 2;
    while index < args.len() {
        if index + 1 == args.len() {
            return Err(SYNTAX);
        }
        parse_pair(args, index, &mut filter)?;
        index += 2;
    }
    Ok(filter)
}

fn parse_pair<'a>(args: Args<'a>, index: usize, filter: &mut Filter<'a>) -> CommandResult {
    let value = args.get(index + 1);
    let integer = encodings::integer::parse_i64(value);
    match args.get(index).to_ascii_lowercase().as_slice() {
        b"id" => {
            let id = integer.filter(|id| *id > 0);
            filter.id =
                Some(id.ok_or(CommandError::new("ERR client-id should be greater than 0"))?);
        }
        b"maxage" => {
            let age =
                integer.ok_or(CommandError::new("ERR maxage is not an integer or out of range"))?;
            let age = u64::try_from(age).ok().filter(|age| *age > 0);
            filter.max_age_s =
                Some(age.ok_or(CommandError::new("ERR maxage should be greater than 0"))?);
        }
        b"type" => filter.kind = Some(ClientType::from_word(value)?),
        b"addr" => filter.address = Some(value),
        b"laddr" => filter.local_address = Some(value),
        b"user" if value == DEFAULT_USER => {}
        b"user" => return Err(CommandError::naming("ERR No such user '", value, "'")),
        b"skipme" if value.eq_ignore_ascii_case(b"yes") => filter.spares_me = true,
        b"skipme" if value.eq_ignore_ascii_case(b"no") => filter.spares_me = false,
        _ => return Err(SYNTAX),
    }
    Ok(())
}
