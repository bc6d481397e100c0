//! The handle on a simulated network, and the clients' ends of its connections.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Sim;
use super::disk::{DiskFaults, SimDisk};
use super::faults::Faults;
use super::world::{Side, World};
use crate::Address;

thread_local! {
    /// Where [`crate::Backend::open`] opens on this thread.
    static CURRENT: RefCell<Option<SimNet>> = const { RefCell::new(None) };
}

/// A machine on a simulated network; clones name the same one.
#[derive(Clone)]
pub struct SimNet {
    shared: Arc<Shared>,
    /// The machine's disk.
    disk: SimDisk,
}

struct Shared {
    world: Mutex<World>,
    /// Something has happened that a waiting backend may want to see.
    changed: Condvar,
}

impl SimNet {
    /// Makes a network and a machine on it, with an empty disk without faults. What happens
    /// depends on the seed, the faults and the calls alone.
    pub fn new(seed: u64, faults: Faults) -> Self {
        let world = Mutex::new(World::new(seed, faults));
        let shared = Arc::new(Shared { world, changed: Condvar::new() });
        Self { shared, disk: SimDisk::new(seed, DiskFaults::NONE) }
    }

    /// A machine with another disk on the same network.
    pub fn with_disk(&self, disk: SimDisk) -> Self {
        Self { shared: self.shared.clone(), disk }
    }

    /// The machine's disk.
    pub fn disk(&self) -> &SimDisk {
        &self.disk
    }

    /// Opens a backend on this machine.
    pub fn backend(&self) -> Sim {
        Sim::on(self.clone())
    }

    /// Has [`crate::Backend::open`] on this thread run on this machine until the guard is dropped.
    pub fn enter(&self) -> Entered {
        Entered { previous: CURRENT.replace(Some(self.clone())) }
    }

    /// The machine that was entered on this thread, or one on a new network without faults.
    pub(super) fn current() -> Self {
        CURRENT.with_borrow(Clone::clone).unwrap_or_else(|| Self::new(0, Faults::NONE))
    }

    /// Connects to a listener of one of the backends.
    ///
    /// # Errors
    /// `ConnectionRefused` where nobody listens, `WouldBlock` where the backlog is full.
    pub fn connect(&self, address: &Address) -> io::Result<SimClient> {
        let link = self.change().connect(address)?;
        Ok(SimClient { net: self.clone(), link, open: true })
    }

    /// Virtual time since the start.
    pub fn now(&self) -> Duration {
        self.world().now()
    }

    /// Lets time pass, with all that is due meanwhile.
    pub fn advance(&self, duration: Duration) {
        let mut world = self.change();
        let limit = world.now() + duration;
        while world.pass(limit) {}
    }

    /// Changes the faults from here on.
    pub fn set_faults(&self, faults: Faults) {
        self.change().faults = faults;
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.shared.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The world, to be changed: backends waiting on other threads look again.
    pub(super) fn change(&self) -> MutexGuard<'_, World> {
        // They cannot look before this lock is released.
        let world = self.world();
        self.shared.changed.notify_all();
        world
    }

    /// Sleeps until another thread changes the world.
    pub(super) fn sleep<'a>(&'a self, world: MutexGuard<'a, World>) -> MutexGuard<'a, World> {
        self.shared.changed.wait(world).unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a network current; see [`SimNet::enter`].
pub struct Entered {
    previous: Option<SimNet>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.previous.take());
    }
}

/// A client's end of a connection. Reads and writes do not block: they answer `WouldBlock` until
/// the backend's side has run or time has passed. Dropping it closes it.
pub struct SimClient {
    net: SimNet,
    link: usize,
    open: bool,
}

impl SimClient {
    /// Our address and the server's.
    pub fn addresses(&self) -> Option<(Address, Address)> {
        self.net.world().addresses(self.link)
    }

    /// Ends our direction; replies can still be read.
    pub fn shut_down_write(&mut self) {
        self.net.change().shut_down(self.link, Side::Client);
    }

    /// Breaks the connection off.
    pub fn reset(mut self) {
        self.open = false;
        self.net.change().reset(self.link, Side::Client);
    }
}

impl Read for SimClient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut world = self.net.change();
        world.settle();
        world.read(self.link, Side::Client, buffer)
    }
}

impl Write for SimClient {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let mut world = self.net.change();
        world.settle();
        match world.write(self.link, Side::Client, buffer) {
            Ok(0) if !buffer.is_empty() => Err(io::ErrorKind::WouldBlock.into()),
            result => result,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for SimClient {
    fn drop(&mut self) {
        if self.open {
            self.net.change().close(self.link, Side::Client);
        }
    }
}
