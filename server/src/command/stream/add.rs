//! XADD and XTRIM.

use engine::{Added, Keep, NewId, References, StreamId, Trim};

use super::id;
use super::reply::answer_id;
use crate::command::args::Args;
use crate::command::dispatch::{CommandCtx, CommandResult, wrong_arity};
use crate::command::error::{CommandError, SYNTAX};

/// What becomes of references to what is deleted, if an argument says so.
pub(super) fn references(args: Args<'_>, index: usize) -> Option<References> {
    let words = [
        ("keepref", References::Keep),
        ("delref", References::Delete),
        ("acked", References::Acked),
    ];
    words.into_iter().find(|(word, _)| args.is(index, word)).map(|(_, references)| references)
}

/// The options of XADD and XTRIM.
#[derive(Default)]
struct Options {
    /// Where the options end.
    end: usize,
    must_exist: bool,
    keep: Option<Keep>,
    whole_nodes: bool,
    limit: Option<u64>,
    references: Option<References>,
}

impl Options {
    /// Reads options up to an argument that is none.
    fn parse(args: Args<'_>, is_xadd: bool) -> Result<Self, CommandError> {
        let mut options = Self { end: 2, ..Self::default() };
        while options.end < args.len() {
            let at = options.end;
            let has_value = at + 1 < args.len();
            if has_value && (args.is(at, "maxlen") || args.is(at, "minid")) {
                options.parse_keep(args)?;
            } else if has_value && args.is(at, "limit") {
                options.limit = Some(parse_limit(args, at + 1)?);
                options.end += 2;
            } else if is_xadd && args.is(at, "nomkstream") {
                options.must_exist = true;
                options.end += 1;
            } else if options.references.is_none() && references(args, at).is_some() {
                options.references = references(args, at);
                options.end += 1;
            } else {
                break;
            }
        }
        Ok(options)
    }

    /// Reads `MAXLEN [=|~] count` or `MINID [=|~] id`.
    fn parse_keep(&mut self, args: Args<'_>) -> Result<(), CommandError> {
        const TWICE: CommandError = CommandError::new(
            "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
        );
        if self.keep.is_some() {
            return Err(TWICE);
        }
        let mut at = self.end + 1;
        self.whole_nodes = false;
        if at + 1 < args.len() && matches!(args.get(at), b"~" | b"=") {
            self.whole_nodes = args.get(at) == b"~";
            at += 1;
        }
        self.keep = Some(if args.is(self.end, "maxlen") {
            let count = args.integer(at)?;
            let negative = CommandError::new("ERR The MAXLEN argument must be >= 0.");
            Keep::Newest(u64::try_from(count).map_err(|_| negative)?)
        } else {
            Keep::From(id::strict(args.get(at), 0)?)
        });
        self.end = at + 1;
        Ok(())
    }

    /// How to trim, if at all. `node_entries` is `stream-node-max-entries`.
    fn trim(&self, is_xadd: bool, node_entries: usize) -> Result<Option<Trim>, CommandError> {
        /// Nodes of entries that are trimmed at once, and the bounds of what that makes.
        const NODES: u64 = 100;
        const LIMIT_WITHOUT: u64 = 10_000;
        const LIMIT_MAX: u64 = 1_000_000;
        const LIMIT_ALONE: CommandError = CommandError::new(
            "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
        );
        const NO_STRATEGY: CommandError =
            CommandError::new("ERR syntax error, XTRIM must be called with a trimming strategy");
        const LIMIT_EXACT: CommandError = CommandError::new(
            "ERR syntax error, LIMIT cannot be used without the special ~ option",
        );
        if self.keep.is_none() && self.limit.is_some_and(|limit| limit > 0) {
            return Err(LIMIT_ALONE);
        }
        if self.keep.is_none() && !is_xadd {
            return Err(NO_STRATEGY);
        }
        if self.limit.is_some() && !self.whole_nodes {
            return Err(LIMIT_EXACT);
        }
        let usual = match (node_entries as u64).saturating_mul(NODES) {
            0 => LIMIT_WITHOUT,
            limit => limit.min(LIMIT_MAX),
        };
        let limit = if self.whole_nodes { self.limit.unwrap_or(usual) } else { 0 };
        let references = self.references.unwrap_or_default();
        let whole_nodes = self.whole_nodes;
        Ok(self.keep.map(|keep| Trim { keep, whole_nodes, limit, references }))
    }
}

fn parse_limit(args: Args<'_>, index: usize) -> Result<u64, CommandError> {
    let limit = args.integer(index)?;
    u64::try_from(limit).map_err(|_| CommandError::new("ERR The LIMIT argument must be >= 0."))
}

fn new_id(text: &[u8]) -> Result<NewId, CommandError> {
    if text == b"*" {
        return Ok(NewId::Auto);
    }
    Ok(match id::new_id(text)? {
        (ms, None) => NewId::At(ms),
        (ms, Some(seq)) => NewId::Exact(StreamId::new(ms, seq)),
    })
}

pub(super) fn xadd(ctx: &mut CommandCtx<'_>) -> CommandResult {
    const ZERO: CommandError =
        CommandError::new("ERR The ID specified in XADD must be greater than 0-0");
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let options = Options::parse(args, true)?;
    let new_id = match options.end < args.len() {
        true => new_id(args.get(options.end))?,
        false => NewId::Auto,
    };
    let trim = options.trim(true, ctx.keyspace.limits.stream_node_max_entries)?;
    let first = options.end + 1;
    let texts = args.len().saturating_sub(first);
    if texts < 2 || !texts.is_multiple_of(2) {
        return Err(wrong_arity(ctx.entry));
    }
    if new_id == NewId::Exact(StreamId::MIN) {
        return Err(ZERO);
    }
    if options.must_exist && ctx.keyspace.stream_look(db, &key)?.is_none() {
        ctx.reply.null();
        return Ok(());
    }
    let pairs =
        (0..texts / 2).map(|pair| (args.get(first + 2 * pair), args.get(first + 2 * pair + 1)));
    let id = match ctx.keyspace.stream_add(db, &key, new_id, pairs)? {
        Added::Id(id) => id,
        refused => return Err(refusal(refused)),
    };
    if let Some(trim) = trim {
        ctx.keyspace.stream_trim(db, &key, &trim)?;
    }
    answer_id(ctx.reply, id);
    Ok(())
}

fn refusal(refused: Added) -> CommandError {
    CommandError::new(match refused {
        Added::Exhausted => {
            "ERR The stream has exhausted the last possible ID, unable to add more items"
        }
        Added::TooLarge => "ERR Elements are too large to be stored",
        Added::NotGreater | Added::Id(_) => {
            "ERR The ID specified in XADD is equal or smaller than the target stream top item"
        }
    })
}

pub(super) fn xtrim(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let options = Options::parse(args, false)?;
    if options.end < args.len() {
        return Err(SYNTAX);
    }
    let trim = options.trim(false, ctx.keyspace.limits.stream_node_max_entries)?;
    let trimmed = match trim {
        Some(trim) => ctx.keyspace.stream_trim(db, &key, &trim)?,
        None => 0,
    };
    ctx.reply.count(trimmed);
    Ok(())
}
