//! DEBUG: what tests of the server need and operators do not.
//!
//! The command runs only where `enable-debug-command` allows it. Subcommands that turn a part of
//! Redis on or off that Osmia does not have, such as the resizing of dictionaries, are accepted
//! and change nothing, so that a test which only wants to be left alone by it can run.

use std::time::Duration;

use engine::{Partition, SetCondition, SetOptions, StringValue, Value, ValueType};

use super::digest;
use crate::command::dispatch::{CommandCtx, CommandResult, subcommand_syntax};
use crate::command::error::{CommandError, NO_SUCH_KEY, NOT_AN_INTEGER};
use crate::command::keys::serialize::serialize;
use crate::config::parse_memory;
use crate::resp::Protocol;

const NOT_ALLOWED: CommandError = CommandError::new(
    "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can \
     run it from a local connection, otherwise you need to set this option in the configuration \
     file, and then restart the server.",
);

const HELP: &[&str] = &[
    "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CHANGE-REPL-ID",
    "    Do nothing: there is no replication to be confused yet.",
    "CONFIG-REWRITE-FORCE-ALL",
    "    As CONFIG REWRITE, with the directives that have their defaults too.",
    "DIGEST",
    "    Sum up all databases; equal to Redis's sum over the same data.",
    "DIGEST-VALUE <key> [<key> ...]",
    "    Sum up values.",
    "ERROR <string>",
    "    Answer an error of this text.",
    "HTSTATS <dbid> [full]",
    "    Show figures of a database's index.",
    "HTSTATS-KEY <key> [full]",
    "    Show figures of a value that is kept as a table.",
    "LISTPACK <key>",
    "    Write the first elements of a packed value to the log.",
    "LOG <message>",
    "    Write to the log.",
    "OBJECT <key>",
    "    Show how a value is kept.",
    "PANIC",
    "    End the process as a broken invariant would.",
    "POPULATE <count> [<prefix>] [<size>]",
    "    Create keys named <prefix>:<number>, prefix 'key' if not given.",
    "PROTOCOL <type>",
    "    Answer a value of a type: string, integer, double, bignum, null, array, set, map,",
    "    attrib, push, verbatim, true, false.",
    "QUICKLIST <key> [<0|1>]",
    "    Write figures of a list that is kept in nodes, and its first elements, to the log.",
    "SEGFAULT",
    "    End the process by a signal.",
    "SET-ACTIVE-EXPIRE <0|1>",
    "    Turn the deletion of due keys that nobody asks for off and on.",
    "SLEEP <seconds>",
    "    Stop the shard for a time. Decimals are allowed.",
    "SET-SKIP-CHECKSUM-VALIDATION <0|1>",
    "    Have RESTORE take payloads with a wrong checksum, or refuse them again.",
    "DICT-RESIZING, PAUSE-CRON, QUICKLIST-PACKED-THRESHOLD, REPLYBUFFER,",
    "SET-DISABLE-DENY-SCRIPTS <arg> ...",
    "    Accepted for tests written for Redis; without effect.",
    "HELP",
    "    Print this help.",
];

pub(super) fn debug(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let allowed = match ctx.shard.config.enable_debug_command.as_str() {
        "yes" => true,
        "local" => ctx.client.is_local(),
        _ => false,
    };
    if !allowed {
        return Err(NOT_ALLOWED);
    }
    let word = ctx.args.get(1).to_ascii_lowercase();
    match (word.as_slice(), ctx.args.len()) {
        (b"help", 2) => ctx.reply.lines(HELP),
        (b"sleep", 3) => sleep(ctx),
        (b"set-active-expire", 3) => set_active_expire(ctx),
        (b"set-skip-checksum-validation", 3) => {
            let skip = ctx.args.integer(2).is_ok_and(|value| value != 0);
            ctx.shard.process.check_payloads(!skip);
            ctx.reply.ok();
        }
        (b"object", 3) => return object(ctx),
        (b"digest", 2) => return data_set_digest(ctx),
        (b"digest-value", 3..) => return value_digests(ctx),
        (b"populate", 3..=5) => return populate(ctx),
        (b"protocol", 3) => return protocol(ctx),
        (b"htstats", 3 | 4) => return table_figures(ctx),
        (b"htstats-key", 3..) => return value_table_figures(ctx),
        (b"listpack", 3) => return log_packed(ctx),
        (b"quicklist", 3 | 4) => return log_quicklist(ctx),
        (b"quicklist-packed-threshold", 3) => return packed_threshold(ctx),
        (b"log", 3) => {
            crate::warning!("DEBUG LOG: {}", String::from_utf8_lossy(ctx.args.get(2)));
            ctx.reply.ok();
        }
        (b"error", 3) => ctx.reply.error(ctx.args.get(2)),
        (b"config-rewrite-force-all", 2) => {
            return super::config::rewrite_file(ctx, true);
        }
        (b"reload", 2..) => {
            return Err(CommandError::new(
                "ERR Error trying to save the DB, check server logs: saving is not supported yet",
            ));
        }
        (b"segfault" | b"panic" | b"assert" | b"oom", 2) => {
            crate::warning!("DEBUG {}: ending the process", String::from_utf8_lossy(&word));
            std::process::abort();
        }
        (b"change-repl-id", 2)
        | (b"dict-resizing" | b"pause-cron" | b"set-disable-deny-scripts", 3)
        | (b"replybuffer", 4) => ctx.reply.ok(),
        _ => return Err(subcommand_syntax(ctx)),
    }
    Ok(())
}

fn sleep(ctx: &mut CommandCtx<'_>) {
    let text = String::from_utf8_lossy(ctx.args.get(2));
    let seconds = text.parse().unwrap_or(0.0);
    std::thread::sleep(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    ctx.reply.ok();
}

fn set_active_expire(ctx: &mut CommandCtx<'_>) {
    let on = ctx.args.integer(2).is_ok_and(|value| value != 0);
    ctx.keyspace.all_mut().for_each(|share| share.partition.active_expire = on);
    ctx.reply.ok();
}

fn object(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let key = ctx.keyspace.key(ctx.args.get(2));
    let db = ctx.client.db;
    let partition = ctx.keyspace.of(&key);
    let encoding = partition.encoding(db, &key).ok_or(NO_SUCH_KEY)?;
    let idle_s = partition.idle_seconds(db, &key).unwrap_or(0);
    let used_s = (ctx.shard.now_ms() / 1000).saturating_sub(idle_s) & 0xff_ffff;
    let compress = ctx.shard.config.rdbcompression;
    let value = partition.value(db, &key).ok_or(NO_SUCH_KEY)?;
    // Without the type.
    let len = serialize(&value, compress).0.len() - 1;
    let nodes = match value {
        Value::List(list) if encoding == "quicklist" => {
            // The limits are shown as the configuration has them; no node is compressed.
            let config = &ctx.shard.config;
            let is_compressed = u8::from(config.value("list-compress-depth") != "0");
            format!(
                " ql_nodes:{} ql_avg_node:{:.2} ql_listpack_max:{} ql_compressed:{is_compressed} \
                 ql_uncompressed_size:{}",
                list.nodes(),
                list.len() as f64 / list.nodes() as f64,
                config.value("list-max-listpack-size"),
                list.bytes()
            )
        }
        _ => String::new(),
    };
    // Values move, so there is no address to be shown.
    ctx.reply.status(&format!(
        "Value at:0x0 refcount:1 encoding:{encoding} serializedlength:{len} lru:{used_s} \
         lru_seconds_idle:{idle_s}{nodes}"
    ));
    Ok(())
}

/// Elements that are written to the log.
const LOGGED_MAX: usize = 128;

fn log_element(index: usize, element: StringValue<'_>) {
    if index < LOGGED_MAX {
        element.with_text(|text| crate::notice!("{{{index}}} {}", text.escape_ascii()));
    }
}

fn log_packed(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db) = (ctx.keyspace.key(ctx.args.get(2)), ctx.client.db);
    let partition = ctx.keyspace.of(&key);
    let encoding = partition.encoding(db, &key).ok_or(NO_SUCH_KEY)?;
    if !["listpack", "listpackex"].contains(&encoding) {
        return Err(CommandError::new("ERR Not a listpack encoded object."));
    }
    match partition.value(db, &key) {
        Some(Value::List(list)) => {
            crate::notice!("DEBUG LISTPACK: {} elements", list.len());
            let elements = list.iter_from(0).enumerate();
            elements.for_each(|(index, element)| log_element(index, element));
        }
        Some(Value::Members(members)) => {
            crate::notice!("DEBUG LISTPACK: {} members", members.len());
            let mut index = 0;
            members.for_each(|member| {
                log_element(index, member.name);
                if members.value_type() == ValueType::Hash {
                    log_element(index, member.value);
                }
                index += 1;
            });
        }
        _ => {}
    }
    ctx.reply.status("Listpack structure printed on stdout");
    Ok(())
}

fn log_quicklist(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db) = (ctx.keyspace.key(ctx.args.get(2)), ctx.client.db);
    let partition = ctx.keyspace.of(&key);
    let encoding = partition.encoding(db, &key).ok_or(NO_SUCH_KEY)?;
    let Some(Value::List(list)) = partition.value(db, &key).filter(|_| encoding == "quicklist")
    else {
        return Err(CommandError::new("ERR Not a quicklist encoded object."));
    };
    crate::notice!(
        "DEBUG QUICKLIST: {} elements, {} bytes, {} nodes",
        list.len(),
        list.bytes(),
        list.nodes()
    );
    let elements = list.iter_from(0).take(LOGGED_MAX).enumerate();
    elements.for_each(|(index, element)| log_element(index, element));
    ctx.reply.status("Quicklist structure printed on stdout");
    Ok(())
}

/// Checks the bound from which Redis gives an element a node of its own. Here only what no block can
/// hold has one, whatever the bound.
fn packed_threshold(ctx: &mut CommandCtx<'_>) -> CommandResult {
    const BYTES_MAX: u64 = (4 << 30) - (1 << 20);
    let text = String::from_utf8_lossy(ctx.args.get(2));
    parse_memory(&text).filter(|bytes| *bytes <= BYTES_MAX).ok_or(CommandError::new(
        "ERR argument must be a memory value bigger than 1 and smaller than 4gb",
    ))?;
    ctx.reply.ok();
    Ok(())
}

fn value_table_figures(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db) = (ctx.keyspace.key(ctx.args.get(2)), ctx.client.db);
    let partition = ctx.keyspace.of(&key);
    let encoding = partition.encoding(db, &key).ok_or(NO_SUCH_KEY)?;
    let bytes = partition.memory_usage(db, &key).unwrap_or(0);
    let is_table = ["hashtable", "skiplist"].contains(&encoding);
    let Some(Value::Members(members)) = partition.value(db, &key).filter(|_| is_table) else {
        return Err(CommandError::new(
            "ERR The value stored at the specified key is not represented using an hash table",
        ));
    };
    let text = format!(
        "Hash table 0 stats (main hash table):\n number of elements: {}\n bytes with the key: \
         {bytes}\n",
        members.len()
    );
    ctx.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

fn data_set_digest(ctx: &mut CommandCtx<'_>) -> CommandResult {
    ctx.reply.status(&digest::data_set(ctx.keyspace).hex());
    Ok(())
}

fn value_digests(ctx: &mut CommandCtx<'_>) -> CommandResult {
    ctx.reply.array(ctx.args.len() - 2);
    for name in ctx.args.from(2) {
        ctx.reply.status(
            &digest::value(ctx.keyspace.of(&ctx.keyspace.key(name)), ctx.client.db, name).hex(),
        );
    }
    Ok(())
}

fn populate(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let args = ctx.args;
    let number = |index: usize| {
        let value = encodings::integer::parse_i64(args.get(index));
        value
            .and_then(|value| usize::try_from(value).ok())
            .ok_or(CommandError::new("ERR value is out of range, must be positive"))
    };
    let count = number(2)?;
    let prefix = if args.len() > 3 { args.get(3) } else { b"key" };
    let len = if args.len() > 4 { Some(number(4)?) } else { None };
    for index in 0..count {
        let name = [prefix, format!(":{index}").as_bytes()].concat();
        let mut value = format!("value:{index}").into_bytes();
        if let Some(len) = len.filter(|len| *len > 0) {
            value.resize(len, 0);
        }
        let key = ctx.keyspace.key(&name);
        let options = SetOptions { condition: SetCondition::IfMissing, ..SetOptions::default() };
        ctx.keyspace.of(&key).set(ctx.client.db, &key, &value, options)?;
    }
    ctx.reply.ok();
    Ok(())
}

#[allow(clippy::approx_constant, reason = "clients expect the digits of Redis")]
fn protocol(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let reply = &mut *ctx.reply;
    match ctx.args.get(2).to_ascii_lowercase().as_slice() {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.integer(12345),
        b"double" => reply.double(3.141),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"map" => {
            reply.map(3);
            (0..3).for_each(|number| {
                reply.integer(number);
                reply.boolean(number == 1);
            });
        }
        b"attrib" => {
            if reply.protocol() == Protocol::Resp3 {
                reply.attributes(1);
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.integer(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        b"push" if reply.protocol() == Protocol::Resp2 => {
            return Err(CommandError::new("ERR RESP2 is not supported by this command"));
        }
        b"push" => {
            // The order of a Redis: its pushes wait until the reply has gone.
            reply.bulk(b"Some real reply following the push reply");
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.integer(42);
        }
        b"verbatim" => reply.verbatim(b"txt", b"This is a verbatim\nstring"),
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        b"bignum" => reply.big_number("1234567999999999999999999999999999999"),
        _ => {
            return Err(CommandError::new(
                "ERR Wrong protocol type name. Please use one of the following: \
                 string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(())
}

fn table_figures(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let db = ctx.args.integer(2)?;
    let db = i32::try_from(db).map_err(|_| NOT_AN_INTEGER)?;
    let db = usize::try_from(db)
        .ok()
        .filter(|db| *db < ctx.keyspace.databases())
        .ok_or(CommandError::new("ERR Out of range database"))?;
    let sum = |of: fn(&Partition, usize) -> usize| -> usize {
        ctx.keyspace.all().map(|(_, partition)| of(partition, db)).sum()
    };
    let text = format!(
        "[Dictionary HT]\n number of elements: {}\n index bytes of all databases: {}\n[Expires HT]\n \
         number of elements: {}\n index bytes of all databases: {}\n",
        sum(Partition::len),
        sum(|partition, _| partition.memory().index),
        sum(Partition::expires_len),
        sum(|partition, _| partition.memory().expire)
    );
    ctx.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}
