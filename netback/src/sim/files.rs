//! File operations of the simulated backend.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::Duration;

use super::disk::{Disk, SimDisk};
use crate::file::{FileId, FileOp, FileOutput, FileResult, FileToken, OpenMode};

/// A backend's open files, and its operations under way.
pub(super) struct Files {
    disk: SimDisk,
    open: BTreeMap<FileId, Handle>,
    opened: u64,
    /// By the time at which they are over.
    under_way: BTreeMap<(Duration, u64), Operation>,
    submitted: u64,
    ready: VecDeque<(FileToken, FileResult)>,
}

#[derive(Clone, Copy)]
struct Handle {
    /// The file's number on the disk.
    file: usize,
    writable: bool,
}

struct Operation {
    token: FileToken,
    op: FileOp,
    /// The number of the file that `op` is on.
    file: Option<usize>,
    /// Changes below this are over and covered by a sync.
    mark: u64,
}

impl Files {
    pub(super) fn new(disk: SimDisk) -> Self {
        Self {
            disk,
            open: BTreeMap::new(),
            opened: 0,
            under_way: BTreeMap::new(),
            submitted: 0,
            ready: VecDeque::new(),
        }
    }

    /// Takes an operation; returns when it will be over.
    pub(super) fn submit(&mut self, now: Duration, token: FileToken, op: FileOp) -> Duration {
        let file = match self.find(&op) {
            Ok(file) => file,
            Err(result) => {
                self.ready.push_back((token, result));
                return now;
            }
        };
        let mut disk = self.disk.lock();
        let delay_max = disk.faults.delay_max;
        let at = now + disk.random.delay(delay_max);
        let operation = Operation { token, op, file, mark: disk.mark() };
        self.under_way.insert((at, self.submitted), operation);
        self.submitted += 1;
        at
    }

    /// The number of the file that an operation is on. `Err`: the result is there already.
    fn find(&mut self, op: &FileOp) -> Result<Option<usize>, FileResult> {
        let (file, writes) = match op {
            FileOp::Close { file } => {
                let closed = self.open.remove(file);
                return Err(closed.map(|_| FileOutput::Done).ok_or_else(not_open));
            }
            FileOp::Read { file, .. } | FileOp::Sync { file, .. } => (file, false),
            FileOp::Write { file, .. } | FileOp::Truncate { file, .. } => (file, true),
            _ => return Ok(None),
        };
        match self.open.get(file) {
            Some(handle) if handle.writable || !writes => Ok(Some(handle.file)),
            _ => Err(Err(not_open())),
        }
    }

    /// Does what is over by now.
    pub(super) fn settle(&mut self, now: Duration) {
        while let Some(entry) = self.under_way.first_entry()
            && entry.key().0 <= now
        {
            let operation = entry.remove();
            let token = operation.token;
            let result = self.perform(operation);
            self.ready.push_back((token, result));
        }
    }

    /// The next result.
    pub(super) fn next(&mut self) -> Option<(FileToken, FileResult)> {
        self.ready.pop_front()
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    fn perform(&mut self, operation: Operation) -> FileResult {
        let Operation { op, file, mark, .. } = operation;
        if let (FileOp::Open { path, mode }, None) = (&op, file) {
            let (number, len) = self.disk.lock().open(path, *mode)?;
            self.opened += 1;
            let file = FileId(self.opened);
            let writable = *mode != OpenMode::Read;
            self.open.insert(file, Handle { file: number, writable });
            return Ok(FileOutput::Opened { file, len });
        }
        let mut disk = self.disk.lock();
        match file {
            Some(file) => perform_on_file(&mut disk, op, file, mark),
            None => perform_on_names(&mut disk, &op, mark),
        }
    }
}

impl Drop for Files {
    /// What is under way when the program ends happens or does not.
    fn drop(&mut self) {
        for (_, operation) in std::mem::take(&mut self.under_way) {
            let happens = self.disk.lock().random.chance(500);
            if happens {
                let _ = self.perform(operation);
            }
        }
    }
}

fn perform_on_file(disk: &mut Disk, op: FileOp, file: usize, mark: u64) -> FileResult {
    match op {
        FileOp::Read { offset, len, mut buffer, .. } => {
            buffer.clear();
            buffer.extend_from_slice(disk.read(file, offset, len)?);
            Ok(FileOutput::Read(buffer))
        }
        FileOp::Write { offset, buffer, .. } => {
            disk.write(file, offset, &buffer).map(|()| FileOutput::Written(buffer))
        }
        FileOp::Sync { .. } => disk.sync(file, mark).map(|()| FileOutput::Done),
        FileOp::Truncate { len, .. } => disk.truncate(file, len).map(|()| FileOutput::Done),
        _ => Err(not_open()),
    }
}

fn perform_on_names(disk: &mut Disk, op: &FileOp, mark: u64) -> FileResult {
    match op {
        FileOp::Rename { from, to } => disk.rename(from, to)?,
        FileOp::Remove { path } => disk.remove(path)?,
        FileOp::MakeDirectory { path } => disk.create_directory(path)?,
        FileOp::SyncDirectory { path } => disk.sync_directory(path, mark)?,
        FileOp::List { path } => return disk.list(path).map(FileOutput::Names),
        _ => return Err(not_open()),
    }
    Ok(FileOutput::Done)
}

fn not_open() -> io::Error {
    io::Error::from_raw_os_error(libc::EBADF)
}
