//! A simulated disk: what programs see, what is on the medium, and what lies between.
//!
//! Every write, truncation and change of a name is numbered and stays pending until a sync covers
//! it. When the machine crashes, each pending change of a file is kept, lost or torn by seed, each
//! on its own, since caches are written back in any order; of a directory's pending changes the
//! first few are kept, since file systems journal them in order.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::faults::Random;
use crate::file::OpenMode;

/// Bytes that reach the medium together or not at all.
const SECTOR_LEN: usize = 512;

/// What a simulated disk does wrong; chances in thousandths for each operation concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskFaults {
    /// An operation fails. A write may have written a part by then.
    pub failures: u16,
    /// A sync fails; what it should have covered may never reach the medium.
    pub failed_syncs: u16,
    /// An operation takes up to this long. Those under way together end in any order.
    pub delay_max: Duration,
}

impl DiskFaults {
    /// A disk that works at once; it still loses what was not synced when it crashes.
    pub const NONE: Self = Self { failures: 0, failed_syncs: 0, delay_max: Duration::ZERO };
}

/// A simulated disk; clones name the same one. It outlives the backends that use it.
#[derive(Clone)]
pub struct SimDisk {
    disk: Arc<Mutex<Disk>>,
}

impl SimDisk {
    /// An empty disk. What goes wrong on it is drawn from the seed.
    pub fn new(seed: u64, faults: DiskFaults) -> Self {
        let disk = Disk {
            random: Random::new(seed ^ 0x6469_736b),
            faults,
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            pending_names: Vec::new(),
            files: Vec::new(),
            changes: 0,
        };
        Self { disk: Arc::new(Mutex::new(disk)) }
    }

    /// Changes the faults from here on.
    pub fn set_faults(&self, faults: DiskFaults) {
        self.lock().faults = faults;
    }

    /// Makes a directory that is there after any crash.
    pub fn make_directory(&self, path: &Path) {
        let mut disk = self.lock();
        disk.names.insert(path.to_owned(), Node::Directory);
        disk.durable_names.insert(path.to_owned(), Node::Directory);
    }

    /// What programs would read in a file.
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        let disk = self.lock();
        match disk.names.get(path) {
            Some(Node::File(file)) => Some(disk.files[*file].current.clone()),
            _ => None,
        }
    }

    /// The machine fails and starts again: what was not synced is kept, lost or torn. The backends
    /// that used the disk should be gone.
    pub fn crash(&self) {
        self.lock().crash();
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`SimDisk`].
pub(super) struct Disk {
    pub(super) random: Random,
    pub(super) faults: DiskFaults,
    names: BTreeMap<PathBuf, Node>,
    durable_names: BTreeMap<PathBuf, Node>,
    pending_names: Vec<(u64, NameChange)>,
    files: Vec<FileState>,
    /// Changes so far.
    changes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    File(usize),
    Directory,
}

#[derive(Clone, Debug)]
enum NameChange {
    Put { path: PathBuf, node: Node },
    Rename { from: PathBuf, to: PathBuf, node: Node },
    Remove { path: PathBuf },
}

#[derive(Default)]
struct FileState {
    current: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<(u64, Change)>,
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate { len: usize },
}

impl Disk {
    /// The number of the next change; a sync submitted now covers those below.
    pub(super) fn mark(&self) -> u64 {
        self.changes
    }

    /// Draws whether an operation fails.
    fn check(&mut self) -> io::Result<()> {
        if self.random.chance(self.faults.failures) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        Ok(())
    }

    // Files.

    /// Opens a file; returns its number and length.
    pub(super) fn open(&mut self, path: &Path, mode: OpenMode) -> io::Result<(usize, u64)> {
        self.check()?;
        let file = match (self.names.get(path).copied(), mode) {
            (Some(_), OpenMode::CreateNew) => return Err(ErrorKind::AlreadyExists.into()),
            (Some(Node::Directory), _) => return Err(ErrorKind::IsADirectory.into()),
            (Some(Node::File(file)), _) => file,
            (None, OpenMode::Read | OpenMode::Write) => return Err(ErrorKind::NotFound.into()),
            (None, _) => {
                self.check_parent(path)?;
                self.files.push(FileState::default());
                let file = self.files.len() - 1;
                self.change_name(NameChange::Put { path: path.to_owned(), node: Node::File(file) });
                file
            }
        };
        if mode == OpenMode::Replace && !self.files[file].current.is_empty() {
            self.change(file, Change::Truncate { len: 0 });
        }
        Ok((file, self.files[file].current.len() as u64))
    }

    /// Reads up to `len` bytes, fewer at the end only.
    pub(super) fn read(&mut self, file: usize, offset: u64, len: usize) -> io::Result<&[u8]> {
        self.check()?;
        let current = &self.files[file].current;
        let start = current.len().min(offset as usize);
        Ok(&current[start..current.len().min(start.saturating_add(len))])
    }

    /// Writes all bytes, or fails and may have written some.
    pub(super) fn write(&mut self, file: usize, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let failure = self.check();
        let len = match failure {
            Ok(()) => bytes.len(),
            Err(_) => self.random.between(0, bytes.len() as u64) as usize,
        };
        if len > 0 {
            let bytes = bytes[..len].to_vec();
            self.change(file, Change::Write { offset: offset as usize, bytes });
        }
        failure
    }

    /// Cuts a file or fills it up with zeros.
    pub(super) fn truncate(&mut self, file: usize, len: u64) -> io::Result<()> {
        self.check()?;
        self.change(file, Change::Truncate { len: len as usize });
        Ok(())
    }

    /// Makes the changes below `mark` durable, or fails and may have dropped some for good.
    pub(super) fn sync(&mut self, file: usize, mark: u64) -> io::Result<()> {
        let fails = self.random.chance(self.faults.failed_syncs);
        let state = &mut self.files[file];
        let covered = state.pending.partition_point(|(number, _)| *number < mark);
        for (_, change) in state.pending.drain(..covered) {
            if !fails || self.random.chance(500) {
                change.apply(&mut state.durable);
            }
        }
        if fails { Err(io::Error::from_raw_os_error(libc::EIO)) } else { Ok(()) }
    }

    fn change(&mut self, file: usize, change: Change) {
        let state = &mut self.files[file];
        change.apply(&mut state.current);
        state.pending.push((self.changes, change));
        self.changes += 1;
    }

    // Names.

    /// Gives a file another name.
    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.check()?;
        let node = *self.names.get(from).ok_or(ErrorKind::NotFound)?;
        self.check_parent(to)?;
        if node == Node::Directory || self.names.get(to) == Some(&Node::Directory) {
            return Err(ErrorKind::IsADirectory.into());
        }
        self.change_name(NameChange::Rename { from: from.to_owned(), to: to.to_owned(), node });
        Ok(())
    }

    /// Removes a file's name.
    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.check()?;
        match self.names.get(path) {
            None => Err(ErrorKind::NotFound.into()),
            Some(Node::Directory) => Err(ErrorKind::IsADirectory.into()),
            Some(Node::File(_)) => {
                self.change_name(NameChange::Remove { path: path.to_owned() });
                Ok(())
            }
        }
    }

    /// Makes a directory that a crash may lose.
    pub(super) fn create_directory(&mut self, path: &Path) -> io::Result<()> {
        self.check()?;
        self.check_parent(path)?;
        if self.names.contains_key(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        self.change_name(NameChange::Put { path: path.to_owned(), node: Node::Directory });
        Ok(())
    }

    /// Makes the changes of a directory's names below `mark` durable.
    pub(super) fn sync_directory(&mut self, path: &Path, mark: u64) -> io::Result<()> {
        if !is_directory(&self.names, path) {
            return Err(ErrorKind::NotFound.into());
        }
        if self.random.chance(self.faults.failed_syncs) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        let is_covered = |entry: &mut (u64, NameChange)| {
            let (number, change) = entry;
            *number < mark && change.directory() == path
        };
        for (_, change) in self.pending_names.extract_if(.., is_covered) {
            change.apply(&mut self.durable_names);
        }
        Ok(())
    }

    /// The names in a directory, in order.
    pub(super) fn list(&mut self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.check()?;
        if !is_directory(&self.names, path) {
            return Err(ErrorKind::NotFound.into());
        }
        let inside = self.names.keys().filter(|name| name.parent() == Some(path));
        Ok(inside.filter_map(|name| name.file_name().map(PathBuf::from)).collect())
    }

    fn check_parent(&self, path: &Path) -> io::Result<()> {
        let parent = path.parent().ok_or(ErrorKind::NotFound)?;
        if is_directory(&self.names, parent) { Ok(()) } else { Err(ErrorKind::NotFound.into()) }
    }

    fn change_name(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.pending_names.push((self.changes, change));
        self.changes += 1;
    }

    // Crashes.

    fn crash(&mut self) {
        for change in self.draw_kept_names() {
            change.apply(&mut self.durable_names);
        }
        // What lies in a directory that was lost is lost as well.
        let names = self.durable_names.clone();
        self.durable_names.retain(|path, _| has_parents(&names, path));
        self.names = self.durable_names.clone();
        for state in &mut self.files {
            for (_, change) in state.pending.drain(..) {
                change.apply_torn(&mut state.durable, &mut self.random);
            }
            state.current = state.durable.clone();
        }
    }

    /// Of each directory's pending changes the first few.
    fn draw_kept_names(&mut self) -> Vec<NameChange> {
        let mut left = BTreeMap::<PathBuf, u64>::new();
        let pending = std::mem::take(&mut self.pending_names);
        for (_, change) in &pending {
            *left.entry(change.directory().to_owned()).or_default() += 1;
        }
        for count in left.values_mut() {
            *count = self.random.between(0, *count);
        }
        let changes = pending.into_iter().map(|(_, change)| change);
        let is_kept = |change: &NameChange| match left.get_mut(change.directory()) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        };
        changes.filter(is_kept).collect()
    }
}

impl NameChange {
    /// The directory whose sync makes it durable.
    fn directory(&self) -> &Path {
        let (Self::Put { path, .. } | Self::Rename { to: path, .. } | Self::Remove { path }) = self;
        path.parent().unwrap_or(path)
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, Node>) {
        match self {
            Self::Put { path, node } => {
                names.insert(path.clone(), *node);
            }
            Self::Rename { from, to, node } => {
                names.remove(from);
                names.insert(to.clone(), *node);
            }
            Self::Remove { path } => {
                names.remove(path);
            }
        }
    }
}

impl Change {
    fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => write(image, *offset, bytes),
            Self::Truncate { len } => image.resize(*len, 0),
        }
    }

    /// Applies all, nothing, or some sectors of it.
    fn apply_torn(&self, image: &mut Vec<u8>, random: &mut Random) {
        match (self, random.below(3)) {
            (_, 0) => {}
            (Self::Write { offset, bytes }, 1) => {
                let mut start = 0;
                while start < bytes.len() {
                    let left_of_sector = SECTOR_LEN - (offset + start) % SECTOR_LEN;
                    let end = bytes.len().min(start + left_of_sector);
                    if random.chance(500) {
                        write(image, offset + start, &bytes[start..end]);
                    }
                    start = end;
                }
            }
            _ => self.apply(image),
        }
    }
}

fn write(image: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if image.len() < end {
        image.resize(end, 0);
    }
    image[offset..end].copy_from_slice(bytes);
}

fn is_directory(names: &BTreeMap<PathBuf, Node>, path: &Path) -> bool {
    let is_root = path.as_os_str().is_empty() || path == Path::new("/") || path == Path::new(".");
    is_root || names.get(path) == Some(&Node::Directory)
}

fn has_parents(names: &BTreeMap<PathBuf, Node>, path: &Path) -> bool {
    path.ancestors().skip(1).all(|parent| is_directory(names, parent))
}
