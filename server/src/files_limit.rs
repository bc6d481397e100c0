//! The limit of open files: it must hold `maxclients` connections and what the server needs itself.

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::config::Config;

/// Descriptors that are no clients', for each shard: its backend, its waker, files.
const OWN_PER_SHARD: u64 = 8;

/// Descriptors that are no clients', for the process.
const OWN: u64 = 32;

fn own(shards: usize) -> u64 {
    OWN + OWN_PER_SHARD * (shards as u64 - 1)
}

/// Raises the limit so far that it holds so many clients.
///
/// # Errors
/// How many clients the limit holds that the system allows, and its own error.
pub(crate) fn make_room(clients: u64, shards: usize) -> Result<(), (u64, std::io::Error)> {
    let wanted = clients.saturating_add(own(shards));
    let mut limit = getrlimit(Resource::Nofile);
    let Some(current) = limit.current.filter(|current| *current < wanted) else { return Ok(()) };
    limit.current = Some(wanted);
    if limit.maximum.is_some_and(|maximum| maximum < wanted) {
        limit.maximum = Some(wanted);
    }
    let Err(error) = setrlimit(Resource::Nofile, limit) else {
        crate::notice!(
            "Increased maximum number of open files to {wanted} (it was originally set to \
             {current})."
        );
        return Ok(());
    };
    // Only who is privileged may go over the hard limit.
    let hard = getrlimit(Resource::Nofile).maximum;
    limit = getrlimit(Resource::Nofile);
    limit.current = hard;
    let _ = setrlimit(Resource::Nofile, limit);
    let reached = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    Err((reached.saturating_sub(own(shards)), error.into()))
}

/// Makes room for the clients of a configuration at start, or lowers `maxclients` to what there is
/// room for.
pub(crate) fn fit(config: &mut Config, shards: usize) {
    let wanted = config.maxclients as u64;
    let Err((room, error)) = make_room(wanted, shards) else { return };
    let room = room.max(1);
    let error = crate::start::plain(&error);
    crate::warning!(
        "You requested maxclients of {wanted} requiring at least {} max file descriptors.",
        wanted + own(shards)
    );
    crate::warning!(
        "Server can't set maximum open files to {} because of OS error: {error}.",
        wanted + own(shards)
    );
    crate::warning!(
        "Current maximum open files is {}. maxclients has been reduced to {room} to compensate for \
         low ulimit. If you need higher maxclients increase 'ulimit -n'.",
        room + own(shards)
    );
    let value = room.to_string();
    let lowered = config.set(&[(b"maxclients", value.as_bytes())], true);
    debug_assert!(lowered.is_ok(), "a smaller number of clients is a number of clients");
}
