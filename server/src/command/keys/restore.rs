//! RESTORE.

use encodings::integer::parse_i64;
use encodings::rdb::{self, Refused};
use engine::DeleteCause;

use crate::command::args::Args;
use crate::command::dispatch::{CommandCtx, CommandResult};
use crate::command::error::{CommandError, NOT_AN_INTEGER, SYNTAX};

/// The options of RESTORE.
#[derive(Default)]
struct RestoreArgs {
    replace: bool,
    is_absolute: bool,
    idle_s: Option<u64>,
    frequency: Option<u8>,
}

impl RestoreArgs {
    fn parse(args: Args<'_>) -> Result<Self, CommandError> {
        let mut parsed = Self::default();
        let mut cursor = args.cursor(4);
        while cursor.remaining() > 0 {
            if cursor.accept("replace") {
                parsed.replace = true;
            } else if cursor.accept("absttl") {
                parsed.is_absolute = true;
            } else if parsed.frequency.is_none()
                && let Some(text) = cursor.accept_with_value("idletime")
            {
                let idle_s = parse_i64(text).ok_or(NOT_AN_INTEGER)?;
                let negative = CommandError::new("ERR Invalid IDLETIME value, must be >= 0");
                parsed.idle_s = Some(u64::try_from(idle_s).map_err(|_| negative)?);
            } else if parsed.idle_s.is_none()
                && let Some(text) = cursor.accept_with_value("freq")
            {
                let frequency = parse_i64(text).ok_or(NOT_AN_INTEGER)?;
                let out_of_range =
                    CommandError::new("ERR Invalid FREQ value, must be >= 0 and <= 255");
                parsed.frequency = Some(u8::try_from(frequency).map_err(|_| out_of_range)?);
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(parsed)
    }
}

pub(super) fn restore(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let parsed = RestoreArgs::parse(ctx.args)?;
    let (key, db) = (ctx.key(1), ctx.client.db);
    if !parsed.replace && ctx.keyspace.holds(db, &key) {
        return Err(CommandError::new("BUSYKEY Target key name already exists."));
    }
    let ttl_ms = u64::try_from(ctx.args.integer(2)?)
        .map_err(|_| CommandError::new("ERR Invalid TTL value, must be >= 0"))?;
    let (body, dialect) =
        rdb::open_payload(ctx.args.get(3), ctx.shard.process.checks_payloads())
            .map_err(|_| CommandError::new("ERR DUMP payload version or checksum are wrong"))?;
    let value = rdb::read_value(body, dialect).map_err(|refused| {
        log_refusal(refused, body);
        CommandError::new("ERR Bad data format")
    })?;
    let now_ms = ctx.keyspace.now_ms();
    let origin_ms = if parsed.is_absolute { 0 } else { now_ms };
    let expire_at = (ttl_ms > 0).then(|| ttl_ms.saturating_add(origin_ms));
    if expire_at.is_some_and(|at_ms| at_ms <= now_ms) {
        // It would go at once.
        ctx.keyspace.delete(db, &key, DeleteCause::Command);
    } else {
        ctx.keyspace.restore(db, &key, &value, expire_at)?;
        ctx.keyspace.set_use(db, &key, parsed.idle_s, parsed.frequency);
    }
    ctx.reply.ok();
    Ok(())
}

/// Logs why a payload was refused, in words that those who watch a Redis look for.
fn log_refusal(refused: Refused, body: &[u8]) {
    let form = rdb::type_name(body.first().copied().unwrap_or_default());
    let reason = match refused {
        Refused::Corrupt => format!("{form} integrity check failed"),
        Refused::DuplicateElement => format!("{form} with dup elements, integrity check failed"),
        Refused::DuplicateConsumer => "Duplicate stream consumer detected".to_owned(),
    };
    crate::notice!("RESTORE refused a payload: {reason}");
}
