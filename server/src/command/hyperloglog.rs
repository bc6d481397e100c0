//! HyperLogLog commands.

use encodings::hyperloglog::{self, Encoding, Register, Registers};
use engine::OpError;

use super::dispatch::{CommandCtx, CommandResult};
use super::error::CommandError;
use super::spec::{Command, Group, Handler, KeySpec, acl, flag, key_flag as key};

const ADD: &[KeySpec] = &[KeySpec::one(1, key::RW | key::INSERT)];
const COUNT: &[KeySpec] = &[KeySpec::all(1, 1, key::RW | key::ACCESS).notes(
    "RW because it may change the internal representation of the key, and propagate to replicas",
)];
const MERGE: &[KeySpec] = &[
    KeySpec::one(1, key::RW | key::ACCESS | key::INSERT),
    KeySpec::all(2, 1, key::RO | key::ACCESS),
];
const DEBUG: &[KeySpec] = &[KeySpec::one(2, key::RW | key::ACCESS)];

const WRITE: u32 = flag::WRITE | flag::DENYOOM;

const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    run: Handler,
    keys: &'static [KeySpec],
) -> Command {
    Command::new(name, arity, flags, run).keys(keys).acl(acl::HYPERLOGLOG)
}

/// The rows of this family.
pub const COMMANDS: &[Command] = &[
    row("pfadd", -2, WRITE | flag::FAST, pfadd, ADD).docs(
        Group::HyperLogLog,
        "2.8.9",
        "O(1) for each element",
        "Adds elements to the HyperLogLog at a key, which it creates if needed.",
    ),
    row("pfcount", -2, flag::READONLY, pfcount, COUNT).docs(
        Group::HyperLogLog,
        "2.8.9",
        "O(1) with a single key, O(N) with the number of keys otherwise",
        "Estimates how many different elements the HyperLogLogs at some keys have seen together.",
    ),
    row("pfmerge", -2, WRITE, pfmerge, MERGE).docs(
        Group::HyperLogLog,
        "2.8.9",
        "O(N) with the number of keys",
        "Merges the HyperLogLogs at some keys into the one at the first.",
    ),
    row("pfdebug", 3, WRITE | flag::ADMIN, pfdebug, DEBUG)
        .acl(acl::HYPERLOGLOG | acl::DANGEROUS)
        .docs(
            Group::HyperLogLog,
            "2.8.9",
            "O(N) with the number of registers",
            "Shows how the HyperLogLog at a key is packed.",
        ),
    row("pfselftest", 1, flag::ADMIN, pfselftest, &[]).acl(acl::HYPERLOGLOG | acl::DANGEROUS).docs(
        Group::HyperLogLog,
        "2.8.9",
        "O(N) with the number of elements that it adds",
        "Tests the registers and the estimates of HyperLogLogs.",
    ),
];

fn pfadd(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db) = (ctx.key(1), ctx.client.db);
    let registers = ctx.args.from(2).map(Register::of);
    let changed = ctx.keyspace.hyperloglog_add(db, &key, registers)?;
    ctx.reply.integer(i64::from(changed));
    Ok(())
}

fn pfcount(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let count = if ctx.args.len() == 2 {
        let (key, db) = (ctx.key(1), ctx.client.db);
        ctx.keyspace.of(&key).hyperloglog_count(db, &key)?.unwrap_or(0)
    } else {
        union(ctx)?.0.count()
    };
    ctx.reply.integer(count.cast_signed());
    Ok(())
}

/// The registers of all keys together, and whether any of them is dense.
fn union(ctx: &mut CommandCtx<'_>) -> Result<(Registers, bool), CommandError> {
    let (mut registers, mut is_dense) = (Registers::default(), false);
    let db = ctx.client.db;
    for index in 1..ctx.args.len() {
        let key = ctx.key(index);
        if let Some((string, encoding)) = ctx.keyspace.of(&key).hyperloglog(db, &key)? {
            registers.merge(string).map_err(OpError::from)?;
            is_dense |= encoding == Encoding::Dense;
        }
    }
    Ok((registers, is_dense))
}

fn pfmerge(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (registers, is_dense) = union(ctx)?;
    let (key, db) = (ctx.key(1), ctx.client.db);
    ctx.keyspace.of(&key).hyperloglog_merge(db, &key, &registers, is_dense)?;
    ctx.reply.ok();
    Ok(())
}

fn pfdebug(ctx: &mut CommandCtx<'_>) -> CommandResult {
    if ctx.args.is(1, "simd") {
        return simd(ctx);
    }
    let (key, db) = (ctx.key(2), ctx.client.db);
    let Some((string, encoding)) = ctx.keyspace.peek_hyperloglog(db, &key)? else {
        return Err(CommandError::new("ERR The specified key does not exist"));
    };
    if ctx.args.is(1, "getreg") {
        ctx.keyspace.hyperloglog_make_dense(db, &key)?;
        let mut registers = Registers::default();
        if let Some((string, _)) = ctx.keyspace.peek_hyperloglog(db, &key)? {
            registers.merge(string).map_err(OpError::from)?;
        }
        ctx.reply.array(hyperloglog::REGISTERS);
        registers.values().iter().for_each(|value| ctx.reply.integer(i64::from(*value)));
    } else if ctx.args.is(1, "decode") {
        if encoding == Encoding::Dense {
            return Err(CommandError::new("ERR HLL encoding is not sparse"));
        }
        ctx.reply.bulk(hyperloglog::runs_text(string).as_bytes());
    } else if ctx.args.is(1, "encoding") {
        ctx.reply.status(if encoding == Encoding::Dense { "dense" } else { "sparse" });
    } else if ctx.args.is(1, "todense") {
        let changed = ctx.keyspace.hyperloglog_make_dense(db, &key)?;
        ctx.reply.integer(i64::from(changed));
    } else {
        let word = ctx.args.get(1);
        return Err(CommandError::naming("ERR Unknown PFDEBUG subcommand '", word, "'"));
    }
    Ok(())
}

/// Answers as Redis, which has code for one kind of processor that it can do without. Here there is
/// one way only.
fn simd(ctx: &mut CommandCtx<'_>) -> CommandResult {
    if ctx.args.is(2, "on") {
        ctx.reply.status("enabled");
    } else if ctx.args.is(2, "off") {
        ctx.reply.status("disabled");
    } else {
        return Err(CommandError::new("ERR Argument must be ON or OFF"));
    }
    Ok(())
}

/// Rounds of random registers.
const REGISTER_ROUNDS: usize = 100;
/// Elements that are added in all; the estimate is looked at after each power of ten.
const ELEMENTS: u64 = 1_000_000;

fn pfselftest(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let mut string = hyperloglog::EMPTY.to_vec();
    hyperloglog::make_dense(&mut string).map_err(OpError::from)?;
    let empty = string.clone();
    for _ in 0..REGISTER_ROUNDS {
        string.clone_from(&empty);
        test_registers(ctx.shard.random_token(), &mut string)?;
    }
    let seed = ctx.shard.random_token();
    test_estimates(seed, empty, ctx.shard.config.limits().hll_sparse_max_bytes)?;
    ctx.reply.ok();
    Ok(())
}

/// Sets every register to a value of its own and reads them all back.
fn test_registers(seed: u64, string: &mut [u8]) -> CommandResult {
    let value = |index: u16| {
        let mixed = (seed ^ u64::from(index)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 58) as u8
    };
    for index in 0..hyperloglog::REGISTERS as u16 {
        let [low, high] = index.to_le_bytes();
        hyperloglog::raise_dense(string, Register::from_bytes([low, high, value(index)]));
    }
    let mut registers = Registers::default();
    registers.merge(string).map_err(OpError::from)?;
    for (index, found) in (0..).zip(registers.values()) {
        if *found != value(index) {
            return Err(CommandError::text(format!(
                "ERR TESTFAILED Register {index} should be {} but is {found}",
                value(index)
            )));
        }
    }
    Ok(())
}

/// Adds elements to a dense and to a sparse HyperLogLog: both must agree, and not be far off.
fn test_estimates(seed: u64, mut dense: Vec<u8>, sparse_len_max: usize) -> CommandResult {
    let mut sparse = hyperloglog::EMPTY.to_vec();
    let mut checkpoint = 1;
    for added in 1..=ELEMENTS {
        let register = Register::of(&(added ^ seed).to_le_bytes());
        hyperloglog::raise_dense(&mut dense, register);
        hyperloglog::raise(&mut sparse, register, sparse_len_max).map_err(OpError::from)?;
        if added < checkpoint {
            continue;
        }
        let is_sparse = hyperloglog::encoding(&sparse) == Some(Encoding::Sparse);
        if !is_sparse && added < sparse_len_max as u64 / 2 {
            return Err(CommandError::new("ERR TESTFAILED sparse encoding not used"));
        }
        let count = hyperloglog::count(&dense).map_err(OpError::from)?;
        if hyperloglog::count(&sparse) != Ok(count) {
            return Err(CommandError::new("ERR TESTFAILED dense/sparse disagree"));
        }
        let error = added.abs_diff(count);
        if error > error_max(added) {
            return Err(CommandError::text(format!(
                "ERR TESTFAILED Too big error. card:{added} abserr:{error}"
            )));
        }
        checkpoint *= 10;
    }
    Ok(())
}

/// Six times the standard error. Of ten elements two may share a register.
fn error_max(elements: u64) -> u64 {
    let standard = 1.04 / (hyperloglog::REGISTERS as f64).sqrt();
    if elements == 10 { 1 } else { (standard * 6.0 * elements as f64).ceil() as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_self_test_finds_what_is_wrong() {
        let mut dense = hyperloglog::EMPTY.to_vec();
        hyperloglog::make_dense(&mut dense).unwrap();
        assert_eq!(test_registers(7, &mut dense.clone()), Ok(()));
        // A register that is not 0 at first.
        let mut spoiled = dense.clone();
        spoiled[16] = 0x3f;
        let refusal = test_registers(7, &mut spoiled.clone()).unwrap_err();
        assert!(refusal.0.starts_with(b"ERR TESTFAILED Register 0 should be"));
        let refusal = test_estimates(7, spoiled, 3000).unwrap_err();
        assert_eq!(refusal.0, b"ERR TESTFAILED dense/sparse disagree".as_slice());
    }
}
