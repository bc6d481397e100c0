//! LCS: the longest common subsequence of two strings.

use encodings::lcs;
use engine::{Key, OpError};

use super::args::Args;
use super::dispatch::{CommandCtx, CommandResult};
use super::error::{CommandError, NOT_AN_INTEGER, SYNTAX};
use super::spec::{Command, Group, KeySpec, acl, flag, key_flag as key};
use super::string::bytes_of;

const PAIR: &[KeySpec] = &[KeySpec { last: 1, ..KeySpec::one(1, key::RO | key::ACCESS) }];

/// The row of the command.
pub const COMMANDS: &[Command] =
    &[Command::new("lcs", -3, flag::READONLY, run).keys(PAIR).acl(acl::STRING).docs(
        Group::String,
        "7.0.0",
        "O(N*M) with the lengths of the strings",
        "Finds the longest common subsequence of the strings at two keys.",
    )];

/// The options.
#[derive(Default)]
struct Options {
    len: bool,
    index: bool,
    with_match_len: bool,
    match_len_min: i64,
}

impl Options {
    fn parse(args: Args<'_>) -> Result<Self, CommandError> {
        let mut parsed = Self::default();
        let mut cursor = args.cursor(3);
        while cursor.remaining() > 0 {
            if cursor.accept("idx") {
                parsed.index = true;
            } else if cursor.accept("len") {
                parsed.len = true;
            } else if cursor.accept("withmatchlen") {
                parsed.with_match_len = true;
            } else if let Some(text) = cursor.accept_with_value("minmatchlen") {
                parsed.match_len_min = encodings::integer::parse_i64(text).ok_or(NOT_AN_INTEGER)?;
            } else {
                return Err(SYNTAX);
            }
        }
        if parsed.len && parsed.index {
            return Err(CommandError::new(
                "ERR If you want both the length and indexes, please just use IDX.",
            ));
        }
        Ok(parsed)
    }
}

/// Refuses strings for which Redis's table would be larger than a string may be, though less room
/// is needed here.
fn check_room(a: &[u8], b: &[u8], bulk_max: i64) -> CommandResult {
    const LEN_MAX: usize = u32::MAX as usize - 2;
    if a.len() > LEN_MAX || b.len() > LEN_MAX {
        return Err(CommandError::new("ERR String too long for LCS"));
    }
    let cells = (a.len() as u128 + 1) * (b.len() as u128 + 1);
    if cells * size_of::<u32>() as u128 > bulk_max as u128 {
        return Err(CommandError::new(
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        ));
    }
    Ok(())
}

/// Reads a string, which counts as a read and lets it expire if it is due.
fn touch(ctx: &mut CommandCtx<'_>, key: &Key<'_>) -> CommandResult {
    let db = ctx.client.db;
    ctx.keyspace.of(key).get(db, key).map(drop).map_err(|error| match error {
        OpError::WrongType => {
            CommandError::new("ERR The specified keys must contain string values")
        }
        error => error.into(),
    })
}

fn run(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (first, second) = (ctx.key(1), ctx.key(2));
    touch(ctx, &first)?;
    touch(ctx, &second)?;
    let options = Options::parse(ctx.args)?;
    let (db, bulk_max) = (ctx.client.db, ctx.shard.hot.bulk_max);
    let mut digits = [itoa::Buffer::new(), itoa::Buffer::new()];
    let [first_digits, second_digits] = &mut digits;
    let a = bytes_of(ctx.keyspace.view_of(&first).view(db, &first)?, first_digits);
    let b = bytes_of(ctx.keyspace.view_of(&second).view(db, &second)?, second_digits);
    check_room(a, b, bulk_max)?;
    if options.len {
        ctx.reply.count(lcs::len(a, b));
        return Ok(());
    }
    if !options.index {
        ctx.reply.bulk(&lcs::subsequence(a, b));
        return Ok(());
    }
    let (len, mut matches) = lcs::matches(a, b);
    matches.retain(|found| found.len as i64 >= options.match_len_min);
    ctx.reply.map(2);
    ctx.reply.bulk(b"matches");
    ctx.reply.array(matches.len());
    for found in matches {
        ctx.reply.array(2 + usize::from(options.with_match_len));
        for start in [found.a, found.b] {
            ctx.reply.array(2);
            ctx.reply.count(start);
            ctx.reply.count(start + found.len - 1);
        }
        if options.with_match_len {
            ctx.reply.count(found.len);
        }
    }
    ctx.reply.bulk(b"len");
    ctx.reply.count(len);
    Ok(())
}
