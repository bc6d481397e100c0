//! COMMAND: the command table as clients see it.

use crate::command::args::Args;
use crate::command::dispatch::{CommandCtx, CommandResult};
use crate::command::error::{CommandError, SYNTAX};
use crate::command::spec::{
    CATEGORY_NAMES, Command, FLAG_NAMES, KEY_FLAG_NAMES, KeySpec, Reach, bit_names, key_flag,
};
use crate::command::table::{Entry, table};
use crate::resp::Reply;

const HELP: &[&str] = &[
    "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "(no subcommand)",
    "    Describe all commands.",
    "COUNT",
    "    Count the commands.",
    "LIST",
    "    List the names of the commands. FILTERBY (MODULE <name>|ACLCAT <category>|",
    "    PATTERN <pattern>) picks some.",
    "INFO [<command-name> ...]",
    "    Describe commands, all if none is named.",
    "DOCS [<command-name> ...]",
    "    Document commands, all if none is named.",
    "GETKEYS <full-command>",
    "    Pick the keys out of a command.",
    "GETKEYSANDFLAGS <full-command>",
    "    Pick the keys out of a command, with what it does to each.",
    "HELP",
    "    Print this help.",
];

pub(super) fn help(ctx: &mut CommandCtx<'_>) -> CommandResult {
    ctx.reply.lines(HELP);
    Ok(())
}

pub(super) fn count(ctx: &mut CommandCtx<'_>) -> CommandResult {
    ctx.reply.count(table().commands().count());
    Ok(())
}

pub(super) fn all(ctx: &mut CommandCtx<'_>) -> CommandResult {
    ctx.reply.array(table().commands().count());
    table().commands().for_each(|entry| describe(ctx.reply, entry));
    Ok(())
}

pub(super) fn info(ctx: &mut CommandCtx<'_>) -> CommandResult {
    if ctx.args.len() == 2 {
        return all(ctx);
    }
    ctx.reply.array(ctx.args.len() - 2);
    for name in ctx.args.from(2) {
        match table().find_full(name) {
            Some(entry) => describe(ctx.reply, entry),
            None => ctx.reply.null(),
        }
    }
    Ok(())
}

fn describe(reply: &mut Reply, entry: &Entry) {
    let command = entry.command;
    reply.array(10);
    reply.bulk(entry.name.as_bytes());
    reply.integer(i64::from(command.arity));
    statuses(reply, bit_names(command.flags, FLAG_NAMES));
    let (first, last, step) = command.key_range();
    [first, last, step].into_iter().for_each(|number| reply.integer(number.into()));
    let categories = bit_names(command.all_categories(), CATEGORY_NAMES);
    let categories: Vec<String> = categories.map(|name| format!("@{name}")).collect();
    statuses(reply, categories.iter().map(String::as_str));
    reply.set(command.tips.len());
    command.tips.iter().for_each(|tip| reply.bulk(tip.as_bytes()));
    reply.set(command.keys.len());
    command.keys.iter().for_each(|spec| describe_keys(reply, spec));
    let subcommands = table().subcommands(entry);
    // As Redis does it: nothing is an empty set, subcommands are an array.
    if subcommands.is_empty() {
        reply.set(0);
    } else {
        reply.array(subcommands.len());
    }
    subcommands.iter().for_each(|entry| describe(reply, entry));
}

/// A set of statuses.
fn statuses<'a>(reply: &mut Reply, names: impl Iterator<Item = &'a str>) {
    let names: Vec<&str> = names.collect();
    reply.set(names.len());
    names.iter().for_each(|name| reply.status(name));
}

fn describe_keys(reply: &mut Reply, spec: &KeySpec) {
    reply.map(3 + usize::from(spec.notes.is_some()));
    if let Some(notes) = spec.notes {
        reply.bulk(b"notes");
        reply.bulk(notes.as_bytes());
    }
    reply.bulk(b"flags");
    statuses(reply, bit_names(spec.flags.into(), KEY_FLAG_NAMES));
    reply.bulk(b"begin_search");
    if spec.is_untold() {
        describe_unknown(reply);
        reply.bulk(b"find_keys");
        return describe_unknown(reply);
    }
    reply.map(2);
    reply.bulk(b"type");
    match spec.keyword {
        None => {
            reply.bulk(b"index");
            reply.bulk(b"spec");
            reply.map(1);
            reply.bulk(b"index");
        }
        Some(keyword) => {
            reply.bulk(b"keyword");
            reply.bulk(b"spec");
            reply.map(2);
            reply.bulk(b"keyword");
            reply.bulk(keyword.word.as_bytes());
            reply.bulk(b"startfrom");
        }
    }
    reply.integer(spec.first.into());
    reply.bulk(b"find_keys");
    reply.map(2);
    reply.bulk(b"type");
    let is_half = spec.keyword.is_some_and(|keyword| keyword.reach == Reach::Half);
    let limit = if is_half { 2 } else { 0 };
    let (kind, numbers) = if spec.counted {
        ("keynum", [("keynumidx", 0), ("firstkey", 1), ("keystep", spec.step)])
    } else {
        ("range", [("lastkey", spec.last), ("keystep", spec.step), ("limit", limit)])
    };
    reply.bulk(kind.as_bytes());
    reply.bulk(b"spec");
    reply.map(3);
    for (name, number) in numbers {
        reply.bulk(name.as_bytes());
        reply.integer(number.into());
    }
}

fn describe_unknown(reply: &mut Reply) {
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(b"unknown");
    reply.bulk(b"spec");
    reply.map(0);
}

/// What COMMAND LIST picks.
enum Filter<'a> {
    None,
    Module,
    Category(Option<u32>),
    Pattern(&'a [u8]),
}

impl<'a> Filter<'a> {
    fn parse(args: Args<'a>) -> Result<Self, CommandError> {
        match args.len() {
            2 => Ok(Self::None),
            5 if args.is(2, "filterby") => {
                let value = args.get(4);
                if args.is(3, "module") {
                    Ok(Self::Module)
                } else if args.is(3, "aclcat") {
                    let is_called = |name: &str| name.as_bytes().eq_ignore_ascii_case(value);
                    let bit = CATEGORY_NAMES.iter().position(|name| is_called(name));
                    Ok(Self::Category(bit.map(|bit| 1 << bit)))
                } else if args.is(3, "pattern") {
                    Ok(Self::Pattern(value))
                } else {
                    Err(SYNTAX)
                }
            }
            _ => Err(SYNTAX),
        }
    }

    fn fits(&self, entry: &Entry) -> bool {
        match self {
            Self::None => true,
            Self::Module | Self::Category(None) => false,
            Self::Category(Some(bit)) => entry.command.all_categories() & bit != 0,
            Self::Pattern(pattern) => encodings::glob::matches(
                pattern,
                entry.name.as_bytes(),
                encodings::glob::Case::Ignore,
            ),
        }
    }
}

pub(super) fn list(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let filter = Filter::parse(ctx.args)?;
    let found: Vec<&Entry> = table().entries().iter().filter(|entry| filter.fits(entry)).collect();
    ctx.reply.array(found.len());
    found.iter().for_each(|entry| ctx.reply.bulk(entry.name.as_bytes()));
    Ok(())
}

pub(super) fn docs(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let entries: Vec<&Entry> = if ctx.args.len() == 2 {
        table().commands().collect()
    } else {
        ctx.args.from(2).filter_map(|name| table().find_full(name)).collect()
    };
    ctx.reply.map(entries.len());
    entries.iter().for_each(|entry| document(ctx.reply, entry));
    Ok(())
}

fn document(reply: &mut Reply, entry: &Entry) {
    let command: &Command = entry.command;
    let texts = [
        ("summary", command.summary),
        ("since", command.since),
        ("group", command.group.name()),
        ("complexity", command.complexity),
    ];
    let texts = texts.iter().filter(|(_, text)| !text.is_empty());
    let subcommands = table().subcommands(entry);
    reply.bulk(entry.name.as_bytes());
    reply.map(texts.clone().count() + usize::from(!subcommands.is_empty()));
    for (name, text) in texts {
        reply.bulk(name.as_bytes());
        reply.bulk(text.as_bytes());
    }
    if !subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(subcommands.len());
        subcommands.iter().for_each(|entry| document(reply, entry));
    }
}

/// The row of the command that the arguments of GETKEYS make.
fn target(request: Args<'_>) -> Result<&'static Entry, CommandError> {
    const UNKNOWN: CommandError = CommandError::new("ERR Invalid command specified");
    let mut entry = table().find(request.get(0)).ok_or(UNKNOWN)?;
    if !entry.command.subcommands.is_empty() && request.len() > 1 {
        entry = table().find_subcommand(entry, request.get(1)).ok_or(UNKNOWN)?;
    }
    if entry.command.keys.is_empty() {
        return Err(CommandError::new("ERR The command has no key arguments"));
    }
    if !entry.command.accepts(request.len()) {
        return Err(CommandError::new("ERR Invalid number of arguments specified for command"));
    }
    Ok(entry)
}

const INVALID_ARGUMENTS: CommandError =
    CommandError::new("ERR Invalid arguments specified for command");

pub(super) fn getkeys(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let request = ctx.args.tail(2);
    let keys: Vec<usize> = target(request)?.command.key_indexes(request).collect();
    if keys.is_empty() {
        return Err(INVALID_ARGUMENTS);
    }
    ctx.reply.array(keys.len());
    keys.iter().for_each(|index| ctx.reply.bulk(request.get(*index)));
    Ok(())
}

pub(super) fn getkeysandflags(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let request = ctx.args.tail(2);
    let entry = target(request)?;
    let keys: Vec<(usize, u16)> = entry
        .command
        .keys
        .iter()
        .flat_map(|spec| {
            let flags = key_flags(entry, spec, request);
            spec.indexes(request).map(move |index| (index, flags))
        })
        .collect();
    ctx.reply.array(keys.len());
    for (index, flags) in keys {
        ctx.reply.array(2);
        ctx.reply.bulk(request.get(index));
        statuses(ctx.reply, bit_names(flags.into(), KEY_FLAG_NAMES));
    }
    Ok(())
}

/// What a request does to its keys, where that depends on its options.
fn key_flags(entry: &Entry, spec: &KeySpec, request: Args<'_>) -> u16 {
    const READS: u16 = key_flag::RO | key_flag::ACCESS;
    const CHANGES: u16 = key_flag::RW | key_flag::ACCESS | key_flag::UPDATE;
    if spec.flags & key_flag::VARIABLE_FLAGS == 0 {
        return spec.flags;
    }
    let has = |word: &str| (3..request.len()).any(|index| request.is(index, word));
    let writes = ["set", "incrby"]
        .into_iter()
        .any(|word| (2..request.len()).any(|index| request.is(index, word)));
    match entry.command.name {
        "set" if has("get") => CHANGES,
        "set" => key_flag::OW | key_flag::UPDATE,
        "bitfield" if writes => CHANGES,
        "bitfield" => READS,
        _ => spec.flags & !key_flag::VARIABLE_FLAGS,
    }
}
