//! SHUTDOWN: stopping the server.

use netback::Close;

use crate::command::dispatch::{CommandCtx, CommandResult};
use crate::command::error::{CommandError, SYNTAX};

const NOTHING_TO_ABORT: CommandError = CommandError::new("ERR No shutdown in progress.");

const CANNOT_SAVE: CommandError = CommandError::new("ERR Errors trying to SHUTDOWN. Check logs.");

/// How to stop.
#[derive(Default)]
struct Options {
    save: bool,
    nosave: bool,
    now: bool,
    force: bool,
    abort: bool,
}

impl Options {
    fn parse(ctx: &CommandCtx<'_>) -> Result<Self, CommandError> {
        let mut options = Self::default();
        for word in ctx.args.from(1) {
            let option = match word.to_ascii_lowercase().as_slice() {
                b"save" => &mut options.save,
                b"nosave" => &mut options.nosave,
                b"now" => &mut options.now,
                b"force" => &mut options.force,
                b"abort" => &mut options.abort,
                _ => return Err(SYNTAX),
            };
            *option = true;
        }
        let others = options.save || options.nosave || options.now || options.force;
        if (options.abort && others) || (options.save && options.nosave) {
            return Err(SYNTAX);
        }
        Ok(options)
    }
}

pub(super) fn shutdown(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let options = Options::parse(ctx)?;
    if options.abort {
        // A server that stops does so within a tick, so no command meets one that is stopping.
        return Err(NOTHING_TO_ABORT);
    }
    if options.save && !options.force {
        crate::warning!("Can't save before the shutdown: saving is not supported yet");
        return Err(CANNOT_SAVE);
    }
    crate::warning!("User requested shutdown...");
    ctx.shard.process.shut_down();
    ctx.client.close = Some(Close::Now);
    Ok(())
}
