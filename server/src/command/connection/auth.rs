//! AUTH, and the check of a user's password that HELLO shares.

use crate::command::dispatch::{CommandCtx, CommandResult};
use crate::command::error::{CommandError, SYNTAX};

/// The one user that exists without access control lists.
pub(super) const DEFAULT_USER: &[u8] = b"default";

/// The pair of user and password is not known.
const AUTH_DENIED: CommandError =
    CommandError::new("WRONGPASS invalid username-password pair or user is disabled.");

const NO_PASSWORD: CommandError = CommandError::new(
    "ERR AUTH <password> called without any password configured for the default user. Are you sure \
     your configuration is correct?",
);

pub(super) fn auth(ctx: &mut CommandCtx<'_>) -> CommandResult {
    // Arguments after a mistake may be passwords too.
    (1..ctx.args.len()).for_each(|index| ctx.redact(index));
    match ctx.args.len() {
        2 if !ctx.shard.hot.password_required => return Err(NO_PASSWORD),
        2 => log_in(ctx, DEFAULT_USER, ctx.args.get(1))?,
        3 => log_in(ctx, ctx.args.get(1), ctx.args.get(2))?,
        _ => return Err(SYNTAX),
    }
    ctx.reply.ok();
    Ok(())
}

/// Authenticates the client, if user and password are right.
///
/// # Errors
/// [`AUTH_DENIED`]; the client stays what it was.
pub(super) fn log_in(ctx: &mut CommandCtx<'_>, user: &[u8], password: &[u8]) -> CommandResult {
    let expected = ctx.shard.config.requirepass.as_slice();
    let accepted = expected.is_empty() || equal_in_constant_time(password, expected);
    if user != DEFAULT_USER || !accepted {
        ctx.shard.stats.auth_denied += 1;
        return Err(AUTH_DENIED);
    }
    ctx.client.authenticated = true;
    Ok(())
}

/// Compares so that the time tells the length at most, not how much was guessed right.
fn equal_in_constant_time(given: &[u8], expected: &[u8]) -> bool {
    let mut difference = given.len() ^ expected.len();
    for (index, byte) in given.iter().enumerate() {
        difference |= usize::from(byte ^ expected[index % expected.len()]);
    }
    difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_compared_whole() {
        assert!(equal_in_constant_time(b"secret", b"secret"));
        for given in [&b""[..], b"s", b"secrets", b"secre", b"Secret", b"secretsecret"] {
            assert!(!equal_in_constant_time(given, b"secret"), "{given:?}");
        }
    }
}
