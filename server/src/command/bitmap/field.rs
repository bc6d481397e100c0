//! BITFIELD and BITFIELD_RO: integers of any width at any bit of a string.

use encodings::bitfield::{FieldType, Overflow};
use engine::Changed;

use super::{bit_offset, bytes_of};
use crate::command::args::{Args, Cursor};
use crate::command::dispatch::{CommandCtx, CommandResult};
use crate::command::error::{CommandError, SYNTAX};
use crate::resp::Reply;

const FIELD_TYPE: CommandError = CommandError::new(
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 \
     is.",
);

/// What is done with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Get,
    Set(i64, Overflow),
    IncrBy(i64, Overflow),
}

/// A subcommand of BITFIELD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FieldOp {
    action: Action,
    field: FieldType,
    offset: u64,
}

/// Reads a type such as `i16` or `u8`.
fn field_type(text: &[u8]) -> Result<FieldType, CommandError> {
    let (signed, digits) = match text {
        [b'i', digits @ ..] => (true, digits),
        [b'u', digits @ ..] => (false, digits),
        _ => return Err(FIELD_TYPE),
    };
    encodings::integer::parse_i64(digits)
        .and_then(|bits| u32::try_from(bits).ok())
        .and_then(|bits| FieldType::new(signed, bits))
        .ok_or(FIELD_TYPE)
}

/// Reads what OVERFLOW is to be.
fn overflow(text: &[u8]) -> Result<Overflow, CommandError> {
    match text {
        _ if text.eq_ignore_ascii_case(b"wrap") => Ok(Overflow::Wrap),
        _ if text.eq_ignore_ascii_case(b"sat") => Ok(Overflow::Saturate),
        _ if text.eq_ignore_ascii_case(b"fail") => Ok(Overflow::Fail),
        _ => Err(CommandError::new("ERR Invalid OVERFLOW type specified")),
    }
}

/// Reads all subcommands.
fn parse(args: Args<'_>, string_len_max: i64) -> Result<Vec<FieldOp>, CommandError> {
    let mut ops = Vec::new();
    let mut on_overflow = Overflow::Wrap;
    let mut cursor = args.cursor(2);
    while cursor.remaining() > 0 {
        if let Some(text) = cursor.accept_with_value("overflow") {
            on_overflow = overflow(text)?;
        } else {
            ops.push(parse_op(&mut cursor, on_overflow, string_len_max)?);
        }
    }
    Ok(ops)
}

fn parse_op(
    cursor: &mut Cursor<'_>,
    on_overflow: Overflow,
    string_len_max: i64,
) -> Result<FieldOp, CommandError> {
    let words = cursor.remaining();
    let action: fn(i64, Overflow) -> Action = match () {
        () if words >= 3 && cursor.accept("get") => |_, _| Action::Get,
        () if words >= 4 && cursor.accept("set") => Action::Set,
        () if words >= 4 && cursor.accept("incrby") => Action::IncrBy,
        () => return Err(SYNTAX),
    };
    let field = field_type(cursor.next().ok_or(SYNTAX)?)?;
    let offset = bit_offset(cursor.next().ok_or(SYNTAX)?, Some(field.bits()), string_len_max)?;
    let is_get = action(0, on_overflow) == Action::Get;
    let operand = if is_get { 0 } else { cursor.integer()? };
    Ok(FieldOp { action: action(operand, on_overflow), field, offset })
}

impl FieldOp {
    /// Bytes that the string must have for a write; 0 for a read.
    fn len_needed(&self) -> usize {
        if self.action == Action::Get {
            return 0;
        }
        ((self.offset + u64::from(self.field.bits())).div_ceil(8)) as usize
    }

    /// Runs on a string and answers; says whether the string has changed.
    fn run(&self, bytes: &mut [u8], reply: &mut Reply) -> bool {
        let Self { action, field, offset } = *self;
        let old = encodings::bitfield::get(bytes, offset, field);
        let (new, answers_old) = match action {
            Action::Get => (Some(old), true),
            Action::Set(value, on_overflow) => (field.fit(value, on_overflow), true),
            Action::IncrBy(delta, on_overflow) => (field.add(old, delta, on_overflow), false),
        };
        let Some(new) = new else {
            reply.null();
            return false;
        };
        reply.integer(if answers_old { old } else { new });
        if new != old {
            encodings::bitfield::set(bytes, offset, field, new);
        }
        new != old
    }
}

pub(super) fn bitfield(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let ops = parse(ctx.args, ctx.shard.hot.bulk_max)?;
    let len_needed = ops.iter().map(FieldOp::len_needed).max().unwrap_or(0);
    if len_needed == 0 { read(ctx, &ops) } else { write(ctx, &ops, len_needed) }
}

pub(super) fn bitfield_ro(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let ops = parse(ctx.args, ctx.shard.hot.bulk_max)?;
    if ops.iter().any(|op| op.action != Action::Get) {
        return Err(CommandError::new("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    read(ctx, &ops)
}

fn read(ctx: &mut CommandCtx<'_>, ops: &[FieldOp]) -> CommandResult {
    let key = ctx.key(1);
    let mut digits = itoa::Buffer::new();
    let bytes = bytes_of(ctx.keyspace.get(ctx.client.db, &key)?, &mut digits);
    ctx.reply.array(ops.len());
    for op in ops {
        ctx.reply.integer(encodings::bitfield::get(bytes, op.offset, op.field));
    }
    Ok(())
}

fn write(ctx: &mut CommandCtx<'_>, ops: &[FieldOp], len_needed: usize) -> CommandResult {
    let (key, db) = (ctx.key(1), ctx.client.db);
    let reply = &mut *ctx.reply;
    ctx.keyspace.string_mut(db, &key, len_needed, |bytes| {
        reply.array(ops.len());
        let mut changed = 0..0;
        for op in ops {
            if !op.run(bytes, reply) {
                continue;
            }
            let (start, end) = ((op.offset / 8) as usize, op.len_needed());
            changed = match changed.is_empty() {
                true => start..end,
                false => changed.start.min(start)..changed.end.max(end),
            };
        }
        ((), if changed.is_empty() { Changed::Nothing } else { Changed::Range(changed) })
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types() {
        let check = |text: &str, expected: Option<(bool, u32)>| {
            let found = field_type(text.as_bytes()).ok();
            assert_eq!(found, expected.and_then(|(s, b)| FieldType::new(s, b)), "{text}");
        };
        check("i1", Some((true, 1)));
        check("i64", Some((true, 64)));
        check("u63", Some((false, 63)));
        for refused in ["", "i", "u0", "i0", "u64", "i65", "x8", "8", "U8", "i08", "i-1"] {
            check(refused, None);
        }
    }
}
