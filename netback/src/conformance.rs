//! What every backend has to do, as tests that know none of them.
//!
//! A [`World`] opens a backend and clients for it: real sockets for epoll and io_uring
//! (`conformance/real.rs`), ends in memory for the simulator. Each backend's file runs the whole
//! [`suite`] on its own world, so a failing test names its backend.

pub(crate) mod closing;

pub(crate) mod files;
pub(crate) mod flow;
pub(crate) mod many;
pub(crate) mod real;
mod rig;

use std::io;
use std::time::Duration;

use crate::{Address, Backend};
pub(crate) use rig::Rig;

/// A backend and what surrounds it.
pub(crate) trait World: Sized {
    type Backend: Backend;

    /// Whether sockets and files are the kernel's.
    const IS_REAL: bool = false;

    /// Opens a backend, or says why this machine cannot.
    fn open() -> Result<(Self, Self::Backend), String>;

    /// A second backend in the same world.
    fn open_another(&mut self) -> Self::Backend;

    /// Opens a connection to a listener.
    fn connect(&mut self, address: &Address) -> Box<dyn Client>;

    /// Whether a connection to this address is refused.
    fn is_refused(&mut self, address: &Address) -> bool;

    /// A directory for sockets and files.
    fn directory(&self) -> std::path::PathBuf;

    /// The time since some start: the wall's or the simulation's.
    fn now(&self) -> Duration;
}

/// A client's end of a connection; dropping it closes it.
pub(crate) trait Client {
    /// Writes what fits now.
    fn write(&mut self, bytes: &[u8]) -> usize;

    /// Reads what is there now.
    fn read(&mut self) -> Read;

    /// Closes the sending direction.
    fn finish(&mut self);

    /// Ends the connection by a reset.
    fn reset(self: Box<Self>);
}

/// What a client has read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// At least one byte.
    Bytes(Vec<u8>),
    /// Nothing now.
    Nothing,
    /// The server has closed.
    End,
    /// The server has reset the connection.
    Reset,
}

impl Read {
    /// Reads from an end that does not block.
    pub(crate) fn from(end: &mut dyn io::Read) -> Self {
        let mut buffer = vec![0; 256 << 10];
        match end.read(&mut buffer) {
            Ok(0) => Self::End,
            Ok(len) => {
                buffer.truncate(len);
                Self::Bytes(buffer)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Self::Nothing,
            Err(_) => Self::Reset,
        }
    }
}

/// Writes what fits to an end that does not block.
pub(crate) fn write_some(end: &mut dyn io::Write, bytes: &[u8]) -> usize {
    match end.write(bytes) {
        Ok(len) => len,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        Err(error) => panic!("{error}"),
    }
}

/// An address of IPv4 whose port the kernel chooses.
pub(crate) fn loopback() -> Address {
    Address::Tcp(([127, 0, 0, 1], 0).into())
}

/// `len` bytes in which a swap, a loss or a repetition shows.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index.wrapping_mul(31) ^ (index >> 8).wrapping_mul(17)) as u8).collect()
}

/// Runs the tests on a world; to be used in a backend's own `tests` module.
macro_rules! suite {
    ($world:ty) => {
        $crate::conformance::tests_of! { $world,
            flow::{
                echoes, takes_in_much_in_order, sends_much_in_order, echoes_a_long_pipeline,
                sends_many_buffers_within_the_bound_of_a_wait, pauses_and_resumes,
                bytes_held_by_a_pause_come_first, an_empty_buffer_is_complete,
                a_peer_that_never_reads_harms_nobody, timeouts_are_kept,
                wakes_are_told_once, wakes_come_from_threads,
                sent_is_told_without_other_events
            }
            closing::{
                a_peer_closes, a_peer_resets, a_late_reply_reaches_a_half_closed_peer,
                close_after_sends_sends_all, close_now_drops_the_rest, stale_names_do_nothing,
                closes_while_paused, a_backend_is_dropped_in_the_middle,
                close_now_overtakes_close_after_sends, sends_after_close_are_refused,
                close_after_sends_bears_what_the_peer_says
            }
            many::{
                serves_many_connections, tells_listeners_apart, stops_listening,
                listens_on_ipv6, listens_on_unix_sockets, idle_connections_are_cheap,
                sockets_move_between_backends, places_are_reused_with_new_names,
                accepts_again_when_descriptors_are_free
            }
            files::{
                writes_and_reads_back, writes_anywhere, truncates, renames_and_removes,
                syncs_directories, errors_are_results, does_many_file_operations_at_once,
                file_results_end_a_wait
            }
        }
    };
}
pub(crate) use suite;

macro_rules! tests_of {
    ($world:ty, $($module:ident :: { $($name:ident),* $(,)? })*) => {
        $($(
            #[test]
            fn $name() {
                $crate::conformance::run($crate::conformance::$module::$name::<$world>);
            }
        )*)*
    };
}
pub(crate) use tests_of;

/// Runs a test where the backend can run.
pub(crate) fn run<W: World>(test: fn(Rig<W>)) {
    match W::open() {
        Ok((world, backend)) => test(Rig::new(world, backend)),
        Err(reason) => eprintln!("skipped: {reason}"),
    }
}
