//! Bitmap commands: strings as arrays of bits, most significant bit of the first byte first.
//!
//! This file holds the rows and the commands on single bits and on several keys; ranges of bits
//! and fields of bits have files of their own.

mod field;
mod range;

use encodings::bitmap::Operation;
use engine::{Changed, DeleteCause};

use super::dispatch::{CommandCtx, CommandResult};
use super::error::{CommandError, SYNTAX};
use super::spec::{Command, Group, Handler, KeySpec, acl, flag, key_flag as key};
use super::string::bytes_of;

const READ: &[KeySpec] = &[KeySpec::one(1, key::RO | key::ACCESS)];
const CHANGE: &[KeySpec] = &[KeySpec::one(1, key::RW | key::ACCESS | key::UPDATE)];
const FIELDS: &[KeySpec] =
    &[KeySpec::one(1, key::RW | key::ACCESS | key::UPDATE | key::VARIABLE_FLAGS)
        .notes("This command allows both access and modification of the key")];
const COMBINE: &[KeySpec] =
    &[KeySpec::one(2, key::OW | key::UPDATE), KeySpec::all(3, 1, key::RO | key::ACCESS)];

const FAST_READ: u32 = flag::READONLY | flag::FAST;
const WRITE: u32 = flag::WRITE | flag::DENYOOM;

const FIELD_COST: &str = "O(1) for each subcommand specified";

const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    run: Handler,
    keys: &'static [KeySpec],
) -> Command {
    Command::new(name, arity, flags, run).keys(keys).acl(acl::BITMAP)
}

/// The rows of this family.
pub const COMMANDS: &[Command] = &[
    row("setbit", 4, WRITE, setbit, CHANGE).docs(
        Group::Bitmap,
        "2.2.0",
        "O(1)",
        "Sets or clears one bit of the string at a key, which it creates or lengthens if needed.",
    ),
    row("getbit", 3, FAST_READ, getbit, READ).docs(
        Group::Bitmap,
        "2.2.0",
        "O(1)",
        "Reads one bit of the string at a key.",
    ),
    row("bitcount", -2, flag::READONLY, range::bitcount, READ).docs(
        Group::Bitmap,
        "2.6.0",
        "O(N)",
        "Counts the bits that are set in the string at a key, or in a part of it.",
    ),
    row("bitpos", -3, flag::READONLY, range::bitpos, READ).docs(
        Group::Bitmap,
        "2.8.7",
        "O(N)",
        "Finds the first bit that is set, or clear, in the string at a key or in a part of it.",
    ),
    row("bitop", -4, WRITE, bitop, COMBINE).docs(
        Group::Bitmap,
        "2.6.0",
        "O(N)",
        "Combines the strings at several keys bit by bit and stores the result.",
    ),
    row("bitfield", -2, WRITE, field::bitfield, FIELDS).docs(
        Group::Bitmap,
        "3.2.0",
        FIELD_COST,
        "Reads, sets and counts up integers of any width within the string at a key.",
    ),
    row("bitfield_ro", -2, FAST_READ, field::bitfield_ro, READ).docs(
        Group::Bitmap,
        "6.0.0",
        FIELD_COST,
        "Reads integers of any width within the string at a key.",
    ),
];

/// The offset is no number, negative, or beyond what a string may hold.
const BIT_OFFSET: CommandError =
    CommandError::new("ERR bit offset is not an integer or out of range");

const BIT: CommandError = CommandError::new("ERR bit is not an integer or out of range");

/// Reads a bit offset; `#N` counts in fields of `field_bits` where that is given.
fn bit_offset(
    text: &[u8],
    field_bits: Option<u32>,
    string_len_max: i64,
) -> Result<u64, CommandError> {
    let (digits, unit) = match (text, field_bits) {
        ([b'#', digits @ ..], Some(bits)) => (digits, i64::from(bits)),
        _ => (text, 1),
    };
    encodings::integer::parse_i64(digits)
        .and_then(|offset| offset.checked_mul(unit))
        .filter(|offset| *offset >= 0 && offset >> 3 < string_len_max)
        .map(|offset| offset as u64)
        .ok_or(BIT_OFFSET)
}

fn setbit(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let offset = bit_offset(ctx.args.get(2), None, ctx.shard.hot.bulk_max)?;
    let on = match ctx.args.get(3) {
        b"0" => false,
        b"1" => true,
        _ => return Err(BIT),
    };
    let (key, db) = (ctx.key(1), ctx.client.db);
    let (index, mask) = ((offset / 8) as usize, 0x80u8 >> (offset % 8));
    let was_on = ctx.keyspace.string_mut(db, &key, index + 1, |bytes| {
        let was_on = bytes[index] & mask != 0;
        if was_on == on {
            return (was_on, Changed::Nothing);
        }
        bytes[index] ^= mask;
        (was_on, Changed::Bit { offset, on })
    })?;
    ctx.reply.integer(i64::from(was_on));
    Ok(())
}

fn getbit(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let offset = bit_offset(ctx.args.get(2), None, ctx.shard.hot.bulk_max)?;
    let key = ctx.key(1);
    let mut digits = itoa::Buffer::new();
    let bytes = bytes_of(ctx.keyspace.get(ctx.client.db, &key)?, &mut digits);
    let byte = bytes.get((offset / 8) as usize).copied().unwrap_or(0);
    ctx.reply.integer(i64::from(byte >> (7 - offset % 8) & 1));
    Ok(())
}

/// Reads the operation of BITOP and checks that it can take so many sources.
fn operation(word: &[u8], sources: usize) -> Result<Operation, CommandError> {
    const WORDS: [(&str, Operation); 8] = [
        ("and", Operation::And),
        ("or", Operation::Or),
        ("xor", Operation::Xor),
        ("not", Operation::Not),
        ("diff", Operation::Diff),
        ("diff1", Operation::Diff1),
        ("andor", Operation::AndOr),
        ("one", Operation::One),
    ];
    let found = WORDS.iter().find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()));
    let (name, operation) = *found.ok_or(SYNTAX)?;
    match operation {
        Operation::Not if sources != 1 => {
            Err(CommandError::new("ERR BITOP NOT must be called with a single source key."))
        }
        Operation::Diff | Operation::Diff1 | Operation::AndOr if sources < 2 => {
            Err(CommandError::text(format!(
                "ERR BITOP {} must be called with at least two source keys.",
                name.to_uppercase()
            )))
        }
        _ => Ok(operation),
    }
}

fn bitop(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (db, argc) = (ctx.client.db, ctx.args.len());
    let operation = operation(ctx.args.get(1), argc - 3)?;
    let keys: Vec<_> = (3..argc).map(|index| ctx.key(index)).collect();
    // First as a read of each, which checks the types and lets what is due expire; then all at
    // once without a trace.
    for key in &keys {
        ctx.keyspace.of(key).get(db, key)?;
    }
    let result = {
        let mut digits = vec![itoa::Buffer::new(); keys.len()];
        let sources: Vec<_> = keys
            .iter()
            .zip(&mut digits)
            .map(|(key, digits)| Ok(bytes_of(ctx.keyspace.view_of(key).view(db, key)?, digits)))
            .collect::<Result<_, CommandError>>()?;
        encodings::bitmap::combine(operation, &sources)
    };
    let target = ctx.key(2);
    if result.is_empty() {
        ctx.keyspace.of(&target).delete(db, &target, DeleteCause::Command);
    } else {
        ctx.keyspace.of(&target).set_raw(db, &target, &result)?;
    }
    ctx.reply.count(result.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets() {
        let check = |text: &str, bits, expected: Option<u64>| {
            assert_eq!(bit_offset(text.as_bytes(), bits, 512).ok(), expected, "{text}");
        };
        check("0", None, Some(0));
        check("4095", None, Some(4095));
        check("4096", None, None);
        check("-1", None, None);
        check("#1", None, None);
        check("#1", Some(8), Some(8));
        check("#511", Some(8), Some(4088));
        check("#512", Some(8), None);
        check("#-1", Some(8), None);
        check("#9223372036854775807", Some(64), None);
        check("", None, None);
    }

    #[test]
    fn operations_by_word_and_number_of_sources() {
        assert_eq!(operation(b"AnD", 1), Ok(Operation::And));
        assert_eq!(operation(b"andor", 2), Ok(Operation::AndOr));
        assert_eq!(operation(b"nand", 2), Err(SYNTAX));
        assert!(operation(b"not", 2).is_err());
        let refusal = operation(b"diff1", 1).unwrap_err();
        assert!(refusal.0.starts_with(b"ERR BITOP DIFF1 must"));
    }
}
