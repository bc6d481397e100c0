//! File operations on the kernel's files, one after the other, for threads that may block.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::file::{FileId, FileOp, FileOutput, FileResult, OpenMode};

/// Mode bits of new files.
pub(crate) const FILE_MODE: u32 = 0o644;

/// Mode bits of new directories.
pub(crate) const DIRECTORY_MODE: u32 = 0o755;

/// Files by name.
#[derive(Default)]
pub(crate) struct OpenFiles {
    files: BTreeMap<FileId, Arc<File>>,
    opened: u64,
}

impl OpenFiles {
    /// Takes in a file that was opened.
    pub(crate) fn add(&mut self, file: File) -> FileResult {
        let len = file.metadata()?.len();
        self.opened += 1;
        let id = FileId(self.opened);
        self.files.insert(id, Arc::new(file));
        Ok(FileOutput::Opened { file: id, len })
    }

    /// The file of a name. Whoever works on it holds it open, closed or not.
    pub(crate) fn get(&self, id: FileId) -> io::Result<Arc<File>> {
        let file = self.files.get(&id).map(Arc::clone);
        file.ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
    }

    /// Forgets a file.
    pub(crate) fn close(&mut self, id: FileId) -> FileResult {
        let file = self.files.remove(&id);
        file.map(|_| FileOutput::Done).ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
    }
}

/// An operation with its file at hand.
pub(crate) enum Job {
    Open(PathBuf, OpenMode),
    Read(Arc<File>, u64, usize, Vec<u8>),
    Write(Arc<File>, u64, Vec<u8>),
    Sync(Arc<File>, bool),
    Truncate(Arc<File>, u64),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    MakeDirectory(PathBuf),
    SyncDirectory(PathBuf),
    List(PathBuf),
}

/// What a [`Job`] yields.
pub(crate) enum Yield {
    Opened(File),
    Output(FileOutput),
}

/// Finds the file of an operation. `Err`: the result is there already.
pub(crate) fn prepare(files: &mut OpenFiles, op: FileOp) -> Result<Job, FileResult> {
    let job = match op {
        FileOp::Open { path, mode } => Ok(Job::Open(path, mode)),
        FileOp::Read { file, offset, len, buffer } => {
            files.get(file).map(|file| Job::Read(file, offset, len, buffer))
        }
        FileOp::Write { file, offset, buffer } => {
            files.get(file).map(|file| Job::Write(file, offset, buffer))
        }
        FileOp::Sync { file, data_only } => files.get(file).map(|file| Job::Sync(file, data_only)),
        FileOp::Truncate { file, len } => files.get(file).map(|file| Job::Truncate(file, len)),
        FileOp::Close { file } => return Err(files.close(file)),
        FileOp::Rename { from, to } => Ok(Job::Rename(from, to)),
        FileOp::Remove { path } => Ok(Job::Remove(path)),
        FileOp::MakeDirectory { path } => Ok(Job::MakeDirectory(path)),
        FileOp::SyncDirectory { path } => Ok(Job::SyncDirectory(path)),
        FileOp::List { path } => Ok(Job::List(path)),
    };
    job.map_err(Err)
}

impl Job {
    /// Whether it waits for the medium.
    pub(crate) fn is_sync(&self) -> bool {
        matches!(self, Self::Sync(..) | Self::SyncDirectory(_))
    }

    /// Does it.
    pub(crate) fn run(self) -> io::Result<Yield> {
        let done = |()| FileOutput::Done;
        let output = match self {
            Self::Open(path, mode) => return open(&path, mode).map(Yield::Opened),
            Self::Read(file, offset, len, buffer) => {
                read(&file, offset, len, buffer).map(FileOutput::Read)
            }
            Self::Write(file, offset, buffer) => {
                file.write_all_at(&buffer, offset).map(|()| FileOutput::Written(buffer))
            }
            Self::Sync(file, true) => file.sync_data().map(done),
            Self::Sync(file, false) => file.sync_all().map(done),
            Self::Truncate(file, len) => file.set_len(len).map(done),
            Self::Rename(from, to) => std::fs::rename(from, to).map(done),
            Self::Remove(path) => std::fs::remove_file(path).map(done),
            Self::MakeDirectory(path) => {
                std::fs::DirBuilder::new().mode(DIRECTORY_MODE).create(path).map(done)
            }
            Self::SyncDirectory(path) => {
                File::open(path).and_then(|directory| directory.sync_all()).map(done)
            }
            Self::List(path) => list(&path).map(FileOutput::Names),
        };
        output.map(Yield::Output)
    }
}

fn open(path: &Path, mode: OpenMode) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).mode(FILE_MODE).write(mode != OpenMode::Read);
    match mode {
        OpenMode::Read | OpenMode::Write => {}
        OpenMode::Create => {
            options.create(true);
        }
        OpenMode::CreateNew => {
            options.create_new(true);
        }
        OpenMode::Replace => {
            options.create(true).truncate(true);
        }
    }
    options.open(path)
}

fn read(file: &File, offset: u64, len: usize, mut buffer: Vec<u8>) -> io::Result<Vec<u8>> {
    buffer.clear();
    buffer.resize(len, 0);
    let mut filled = 0;
    while filled < len {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buffer.truncate(filled);
    Ok(buffer)
}

/// The names in a directory, sorted.
pub(crate) fn list(path: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(path)?;
    let mut names = entries
        .map(|entry| entry.map(|entry| PathBuf::from(entry.file_name())))
        .collect::<io::Result<Vec<_>>>()?;
    names.sort_unstable();
    Ok(names)
}
