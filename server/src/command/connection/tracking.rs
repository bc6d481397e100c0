//! CLIENT TRACKING and its relatives; see [`crate::tracking`].

use crate::command::args::Args;
use crate::command::dispatch::{CommandCtx, CommandResult};
use crate::command::error::{CommandError, SYNTAX};
use crate::conn::Client;
use crate::tracking::Tracking;

/// What CLIENT TRACKING asks for, and its prefixes; the redirection is checked already.
fn parse<'a>(ctx: &CommandCtx<'a>) -> Result<(Tracking, Vec<&'a [u8]>), CommandError> {
    let (mut wishes, mut prefixes) = (Tracking::default(), Vec::new());
    let mut cursor = ctx.args.cursor(3);
    while cursor.remaining() > 0 {
        if let Some(text) = cursor.accept_with_value("redirect") {
            if wishes.redirect.is_some() {
                return Err(CommandError::new(
                    "ERR A client can only redirect to a single other client",
                ));
            }
            let id =
                encodings::integer::parse_i64(text).ok_or(crate::command::error::NOT_AN_INTEGER)?;
            let id = u64::try_from(id)
                .ok()
                .filter(|id| *id == ctx.client.id || ctx.shard.process.home_of(*id).is_some());
            wishes.redirect = Some(id.ok_or(CommandError::new(
                "ERR The client ID you want redirect to does not exist",
            ))?);
        } else if cursor.accept("bcast") {
            wishes.broadcast = true;
        } else if cursor.accept("optin") {
            wishes.opt_in = true;
        } else if cursor.accept("optout") {
            wishes.opt_out = true;
        } else if cursor.accept("noloop") {
            wishes.no_loop = true;
        } else if let Some(prefix) = cursor.accept_with_value("prefix") {
            prefixes.push(prefix);
        } else {
            return Err(SYNTAX);
        }
    }
    Ok((wishes, prefixes))
}

fn overlap(prefix: &[u8], what: &str, other: &[u8]) -> CommandError {
    let mut text = b"ERR Prefix '".to_vec();
    text.extend_from_slice(prefix);
    text.extend_from_slice(format!("' overlaps with {what} '").as_bytes());
    text.extend_from_slice(other);
    text.extend_from_slice(b"'. Prefixes for a single client must not overlap.");
    CommandError::text(text)
}

/// Refuses what does not go together, or with what the client has asked for before.
fn check(client: &Client, wishes: &Tracking, prefixes: &[&[u8]]) -> CommandResult {
    let refuse = |text| Err(CommandError::new(text));
    if !wishes.broadcast && !prefixes.is_empty() {
        return refuse("ERR PREFIX option requires BCAST mode to be enabled");
    }
    let before = client.tracking.as_deref();
    if before.is_some_and(|before| before.broadcast != wishes.broadcast) {
        return refuse(
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and \
             then re-enabling it with a different mode.",
        );
    }
    if wishes.broadcast && (wishes.opt_in || wishes.opt_out) {
        return refuse("ERR OPTIN and OPTOUT are not compatible with BCAST");
    }
    if wishes.opt_in && wishes.opt_out {
        return refuse("ERR You can't specify both OPTIN mode and OPTOUT mode");
    }
    if before
        .is_some_and(|before| wishes.opt_in && before.opt_out || wishes.opt_out && before.opt_in)
    {
        return refuse(
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and \
             then re-enabling it with a different mode.",
        );
    }
    check_overlaps(before, prefixes)
}

fn check_overlaps(before: Option<&Tracking>, prefixes: &[&[u8]]) -> CommandResult {
    let overlaps = |a: &[u8], b: &[u8]| a.starts_with(b) || b.starts_with(a);
    for (place, prefix) in prefixes.iter().enumerate() {
        let mut known = before.iter().flat_map(|before| &before.prefixes);
        if let Some(other) = known.find(|other| overlaps(prefix, other)) {
            return Err(overlap(prefix, "an existing prefix", other));
        }
        if let Some(other) = prefixes[place + 1..].iter().find(|other| overlaps(prefix, other)) {
            return Err(overlap(prefix, "another provided prefix", other));
        }
    }
    Ok(())
}

pub(super) fn tracking(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (mut wishes, prefixes) = parse(ctx)?;
    if ctx.args.is(2, "on") {
        check(ctx.client, &wishes, &prefixes)?;
        wishes.prefixes = prefixes.into_iter().map(Box::from).collect();
        if wishes.broadcast && wishes.prefixes.is_empty() {
            wishes.prefixes.insert(Box::default());
        }
        let is_broadcast = wishes.broadcast;
        ctx.shard.track(ctx.client, wishes);
        if is_broadcast {
            // The shares write down what changes from now on.
            ctx.shard.process.change_config(|_| ());
            ctx.keyspace.held_mut().for_each(|(_, share)| share.configure(ctx.shard));
        }
    } else if ctx.args.is(2, "off") {
        ctx.shard.untrack(ctx.client);
    } else {
        return Err(SYNTAX);
    }
    ctx.reply.ok();
    Ok(())
}

pub(super) fn caching(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let Some(tracking) = &mut ctx.client.tracking else {
        return Err(CommandError::new(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN \
             or OPTOUT mode enabled",
        ));
    };
    check_caching(ctx.args, tracking)?;
    tracking.caching = true;
    ctx.reply.ok();
    Ok(())
}

fn check_caching(args: Args<'_>, tracking: &Tracking) -> CommandResult {
    match () {
        () if args.is(2, "yes") && tracking.opt_in => Ok(()),
        () if args.is(2, "no") && tracking.opt_out => Ok(()),
        () if args.is(2, "yes") => Err(CommandError::new(
            "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
        )),
        () if args.is(2, "no") => Err(CommandError::new(
            "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
        )),
        () => Err(SYNTAX),
    }
}

/// The number of the client that is told instead: 0 is none, -1 that nobody is told.
pub(super) fn redirection(client: &Client) -> i64 {
    let tracking = client.tracking.as_ref();
    tracking.map_or(-1, |tracking| tracking.redirect.unwrap_or(0) as i64)
}

pub(super) fn getredir(ctx: &mut CommandCtx<'_>) -> CommandResult {
    ctx.reply.integer(redirection(ctx.client));
    Ok(())
}

pub(super) fn trackinginfo(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let off = Tracking::default();
    let tracking = ctx.client.tracking.as_deref();
    let mut flags = vec![if tracking.is_some() { "on" } else { "off" }];
    let Tracking { broadcast, opt_in, opt_out, caching, no_loop, is_broken, prefixes, .. } =
        tracking.unwrap_or(&off);
    let marks = [
        (*broadcast, "bcast"),
        (*opt_in, "optin"),
        (*opt_in && *caching, "caching-yes"),
        (*opt_out, "optout"),
        (*opt_out && *caching, "caching-no"),
        (*no_loop, "noloop"),
        (*is_broken, "broken_redirect"),
    ];
    flags.extend(marks.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name));
    ctx.reply.map(3);
    ctx.reply.bulk(b"flags");
    ctx.reply.set(flags.len());
    flags.iter().for_each(|flag| ctx.reply.bulk(flag.as_bytes()));
    ctx.reply.bulk(b"redirect");
    ctx.reply.integer(redirection(ctx.client));
    ctx.reply.bulk(b"prefixes");
    ctx.reply.array(prefixes.len());
    prefixes.iter().for_each(|prefix| ctx.reply.bulk(prefix));
    Ok(())
}
