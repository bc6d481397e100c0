//! Commands on keys of any type, and on databases as a whole.
//!
//! This file holds the rows; the handlers stand in files by what they are about.

mod database;
mod expire;
mod general;
mod object;
mod restore;
pub(super) mod scan;
pub(super) mod serialize;

use super::spec::{Command, Group, Handler, KeySpec, acl, flag, key_flag as key};

const LOOK: &[KeySpec] = &[KeySpec::one(1, key::RO)];
const LOOK_ALL: &[KeySpec] = &[KeySpec::all(1, 1, key::RO)];
const LOOK_SECOND: &[KeySpec] = &[KeySpec::one(2, key::RO)];
const READ: &[KeySpec] = &[KeySpec::one(1, key::RO | key::ACCESS)];
const REMOVE_ALL: &[KeySpec] = &[KeySpec::all(1, 1, key::RM | key::DELETE)];
const UPDATE: &[KeySpec] = &[KeySpec::one(1, key::RW | key::UPDATE)];
const OVERWRITE: &[KeySpec] = &[KeySpec::one(1, key::OW | key::UPDATE)];
const MOVE: &[KeySpec] = &[KeySpec::one(1, key::RW | key::ACCESS | key::UPDATE)];
const RENAME: &[KeySpec] =
    &[KeySpec::one(1, key::RW | key::ACCESS | key::DELETE), KeySpec::one(2, key::OW | key::UPDATE)];
const RENAME_NEW: &[KeySpec] =
    &[KeySpec::one(1, key::RW | key::ACCESS | key::DELETE), KeySpec::one(2, key::OW | key::INSERT)];
const COPY: &[KeySpec] =
    &[KeySpec::one(1, key::RO | key::ACCESS), KeySpec::one(2, key::OW | key::UPDATE)];

const FAST_READ: u32 = flag::READONLY | flag::FAST;
const FAST_WRITE: u32 = flag::WRITE | flag::FAST;

/// Tips of commands that a cluster's client splits by key.
const SUM_OF_SHARDS: &[&str] = &["request_policy:multi_shard", "response_policy:agg_sum"];
const FLUSH_TIPS: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];
const VARYING: &[&str] = &["nondeterministic_output"];

/// A row about keys that it names.
const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    run: Handler,
    keys: &'static [KeySpec],
) -> Command {
    Command::new(name, arity, flags, run).keys(keys).acl(acl::KEYSPACE)
}

/// A row about all keys.
const fn whole(name: &'static str, arity: i32, flags: u32, run: Handler) -> Command {
    Command::new(name, arity, flags | flag::ALL_SHARDS, run).acl(acl::KEYSPACE)
}

/// The rows of this family.
pub const COMMANDS: &[Command] = &[
    row("del", -2, flag::WRITE, general::del, REMOVE_ALL)
        .docs(
            Group::Generic,
            "1.0.0",
            "O(N) with the number of keys; a large value is freed bit by bit afterwards",
            "Deletes keys and answers how many there were.",
        )
        .tips(SUM_OF_SHARDS),
    row("unlink", -2, FAST_WRITE, general::del, REMOVE_ALL)
        .docs(
            Group::Generic,
            "4.0.0",
            "O(1) for each key; a large value is freed bit by bit afterwards",
            "Deletes keys and frees their memory in the background.",
        )
        .tips(SUM_OF_SHARDS),
    row("exists", -2, FAST_READ, general::exists, LOOK_ALL)
        .docs(
            Group::Generic,
            "1.0.0",
            "O(N) with the number of keys",
            "Counts how many of the named keys exist; one named twice counts twice.",
        )
        .tips(SUM_OF_SHARDS),
    row("type", 2, FAST_READ, general::type_of, LOOK).docs(
        Group::Generic,
        "1.0.0",
        "O(1)",
        "Names the type of the value at a key.",
    ),
    row("touch", -2, FAST_READ, general::touch, LOOK_ALL)
        .docs(
            Group::Generic,
            "3.2.1",
            "O(N) with the number of keys",
            "Marks keys as used now and answers how many of them exist.",
        )
        .tips(SUM_OF_SHARDS),
    row("rename", 3, flag::WRITE, general::rename, RENAME).docs(
        Group::Generic,
        "1.0.0",
        "O(1)",
        "Gives a key another name, in place of a key that has it already.",
    ),
    row("renamenx", 3, FAST_WRITE, general::renamenx, RENAME_NEW).docs(
        Group::Generic,
        "1.0.0",
        "O(1)",
        "Gives a key another name if no key has it yet.",
    ),
    row("copy", -3, flag::WRITE | flag::DENYOOM, general::copy, COPY).docs(
        Group::Generic,
        "6.2.0",
        "O(N) with the number of elements of a collection, O(1) for strings",
        "Copies the value and the expire time of a key to another key or database.",
    ),
    row("move", 3, FAST_WRITE, general::move_key, MOVE).docs(
        Group::Generic,
        "1.0.0",
        "O(1)",
        "Moves a key to another database if it has no such key.",
    ),
    row("expire", -3, FAST_WRITE, expire::expire, UPDATE).docs(
        Group::Generic,
        "1.0.0",
        "O(1)",
        "Gives a key a time to live in seconds, with conditions if asked.",
    ),
    row("pexpire", -3, FAST_WRITE, expire::pexpire, UPDATE).docs(
        Group::Generic,
        "2.6.0",
        "O(1)",
        "Gives a key a time to live in milliseconds, with conditions if asked.",
    ),
    row("expireat", -3, FAST_WRITE, expire::expireat, UPDATE).docs(
        Group::Generic,
        "1.2.0",
        "O(1)",
        "Sets when a key expires, as Unix time in seconds.",
    ),
    row("pexpireat", -3, FAST_WRITE, expire::pexpireat, UPDATE).docs(
        Group::Generic,
        "2.6.0",
        "O(1)",
        "Sets when a key expires, as Unix time in milliseconds.",
    ),
    row("ttl", 2, FAST_READ, expire::ttl, READ)
        .docs(Group::Generic, "1.0.0", "O(1)", "Tells how many seconds a key has to live.")
        .tips(VARYING),
    row("pttl", 2, FAST_READ, expire::pttl, READ)
        .docs(Group::Generic, "2.6.0", "O(1)", "Tells how many milliseconds a key has to live.")
        .tips(VARYING),
    row("expiretime", 2, FAST_READ, expire::expiretime, READ).docs(
        Group::Generic,
        "7.0.0",
        "O(1)",
        "Tells when a key expires, as Unix time in seconds.",
    ),
    row("pexpiretime", 2, FAST_READ, expire::pexpiretime, READ).docs(
        Group::Generic,
        "7.0.0",
        "O(1)",
        "Tells when a key expires, as Unix time in milliseconds.",
    ),
    row("persist", 2, FAST_WRITE, expire::persist, UPDATE).docs(
        Group::Generic,
        "2.2.0",
        "O(1)",
        "Takes the expire time from a key.",
    ),
    whole("keys", 2, flag::READONLY, scan::keys)
        .acl(acl::KEYSPACE | acl::DANGEROUS)
        .docs(
            Group::Generic,
            "1.0.0",
            "O(N) with the number of keys in the database",
            "Lists the keys whose names match a pattern.",
        )
        .tips(&["request_policy:all_shards", "nondeterministic_output_order"]),
    row("scan", -2, flag::READONLY, scan::scan, &[])
        .placed(scan::place_scan)
        .docs(
            Group::Generic,
            "2.8.0",
            "O(1) for a call, O(N) for a walk over all keys",
            "Walks over the keys of the database, a few with each call.",
        )
        .tips(&["nondeterministic_output", "request_policy:special", "response_policy:special"]),
    whole("randomkey", 1, flag::READONLY, scan::randomkey)
        .docs(Group::Generic, "1.0.0", "O(1)", "Picks a key of the database at random.")
        .tips(&["request_policy:all_shards", "response_policy:special", "nondeterministic_output"]),
    Command::container("object", OBJECT).docs(
        Group::Generic,
        "2.2.3",
        "Depends on subcommand.",
        "Shows how the server keeps the value at a key.",
    ),
    row("dump", 2, flag::READONLY, object::dump, READ)
        .docs(
            Group::Generic,
            "2.6.0",
            "O(1) to find the key, O(N*M) to write N elements of M bytes",
            "Writes the value at a key in the form that RESTORE reads.",
        )
        .tips(VARYING),
    row("restore", -4, flag::WRITE | flag::DENYOOM, restore::restore, OVERWRITE)
        .acl(acl::KEYSPACE | acl::DANGEROUS)
        .docs(
            Group::Generic,
            "2.6.0",
            "O(1) for strings, O(N*M) to make N elements of M bytes",
            "Makes a key of a value that DUMP wrote.",
        ),
    whole("dbsize", 1, FAST_READ, database::dbsize)
        .docs(Group::Server, "1.0.0", "O(1)", "Counts the keys of the database.")
        .tips(SUM_OF_ALL_SHARDS),
    whole("flushall", -1, flag::WRITE, database::flushall)
        .acl(acl::KEYSPACE | acl::DANGEROUS)
        .docs(
            Group::Server,
            "1.0.0",
            "O(1) for the caller; the memory is freed bit by bit afterwards",
            "Deletes all keys of all databases.",
        )
        .tips(FLUSH_TIPS),
    whole("flushdb", -1, flag::WRITE, database::flushdb)
        .acl(acl::KEYSPACE | acl::DANGEROUS)
        .docs(
            Group::Server,
            "1.0.0",
            "O(1) for the caller; the memory is freed bit by bit afterwards",
            "Deletes all keys of the database.",
        )
        .tips(FLUSH_TIPS),
    whole("swapdb", 3, FAST_WRITE, database::swapdb).acl(acl::KEYSPACE | acl::DANGEROUS).docs(
        Group::Server,
        "4.0.0",
        "O(N) with the number of clients that watch or wait for keys of either database",
        "Exchanges the contents of two databases.",
    ),
];

const SUM_OF_ALL_SHARDS: &[&str] = &["request_policy:all_shards", "response_policy:agg_sum"];

/// The subcommands of OBJECT.
const OBJECT: &[Command] = &[
    row("encoding", 3, flag::READONLY, object::encoding, LOOK_SECOND)
        .docs(Group::Generic, "2.2.3", "O(1)", "Names the encoding of the value at a key.")
        .tips(VARYING),
    row("freq", 3, flag::READONLY, object::freq, LOOK_SECOND)
        .docs(Group::Generic, "4.0.0", "O(1)", "Estimates how often a key is used.")
        .tips(VARYING),
    Command::new("help", 2, flag::LOADING | flag::STALE, object::help).acl(acl::KEYSPACE).docs(
        Group::Generic,
        "6.2.0",
        "O(1)",
        "Lists the subcommands.",
    ),
    row("idletime", 3, flag::READONLY, object::idletime, LOOK_SECOND)
        .docs(Group::Generic, "2.2.3", "O(1)", "Tells for how many seconds a key was not used.")
        .tips(VARYING),
    row("refcount", 3, flag::READONLY, object::refcount, LOOK_SECOND)
        .docs(
            Group::Generic,
            "2.2.3",
            "O(1)",
            "Counts the references to the value at a key, which is always one.",
        )
        .tips(VARYING),
];
