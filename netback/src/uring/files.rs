//! File operations of the io_uring backend, as requests on the ring.
//!
//! An operation lies in a table, with the buffer and the path that its request points to, until
//! the kernel has answered. Its file is held open that long, so a descriptor's number is not
//! reused under a request that has not been submitted yet.

use std::collections::VecDeque;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use io_uring::types::{Fd, FsyncFlags};
use io_uring::{opcode, squeue};

use super::ring::{Kind, Ring, Token};
use crate::disk::{self, DIRECTORY_MODE, FILE_MODE, Job, OpenFiles};
use crate::file::{FileOp, FileOutput, FileResult, FileToken, OpenMode};

/// The most bytes that one request moves.
const MOVE_MAX: usize = 1 << 30;

/// Files and the operations on them.
#[derive(Default)]
pub(super) struct Files {
    open: OpenFiles,
    operations: Vec<Option<Operation>>,
    free: Vec<u32>,
    /// Results that are to be told.
    ready: VecDeque<(FileToken, FileResult)>,
}

struct Operation {
    token: FileToken,
    work: Work,
}

/// What a request points to, and what is left to do.
enum Work {
    Open { path: CString, flags: i32 },
    Read { file: Arc<File>, offset: u64, buffer: Vec<u8>, done: usize },
    Write { file: Arc<File>, offset: u64, buffer: Vec<u8>, done: usize },
    Sync { file: Arc<File>, data_only: bool },
    Truncate { file: Arc<File>, len: u64 },
    Rename { from: CString, to: CString },
    Remove { path: CString },
    MakeDirectory { path: CString },
    OpenDirectory { path: CString },
    SyncDirectory { directory: File },
}

/// What an answer means.
enum Step {
    /// Another request has to follow.
    Again(Work),
    Opened(File),
    Result(FileResult),
}

impl Files {
    pub(super) fn submit(&mut self, ring: &mut Ring, token: FileToken, op: FileOp) {
        let work = match disk::prepare(&mut self.open, op) {
            // The ring has no such request. It is short, and asked for at start.
            Ok(Job::List(path)) => Err(disk::list(&path).map(FileOutput::Names)),
            Ok(job) => work_of(job).map_err(Err),
            Err(result) => Err(result),
        };
        match work {
            Ok(work) => self.start(ring, Operation { token, work }),
            Err(result) => self.ready.push_back((token, result)),
        }
    }

    /// The next result.
    pub(super) fn next(&mut self) -> Option<(FileToken, FileResult)> {
        self.ready.pop_front()
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether the kernel works on something.
    pub(super) fn is_busy(&self) -> bool {
        self.operations.len() > self.free.len()
    }

    /// Takes the kernel's answer.
    pub(super) fn completed(&mut self, ring: &mut Ring, index: u32, result: i32) {
        let place = self.operations.get_mut(index as usize);
        let Some(Operation { token, work }) = place.and_then(Option::take) else { return };
        self.free.push(index);
        match work.step(result) {
            Step::Again(work) => self.start(ring, Operation { token, work }),
            Step::Opened(file) => {
                let result = self.open.add(file);
                self.ready.push_back((token, result));
            }
            Step::Result(result) => self.ready.push_back((token, result)),
        }
    }

    fn start(&mut self, ring: &mut Ring, operation: Operation) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.operations.push(None);
            self.operations.len() as u32 - 1
        });
        let operation = self.operations[index as usize].insert(operation);
        let entry = operation.work.entry();
        // SAFETY: the operation stays in its place, with the buffer and the path, both on the
        // heap, until `completed` takes the answer; see also `Uring`'s drop.
        unsafe { ring.push(Token::new(Kind::File, index), entry) };
    }
}

fn work_of(job: Job) -> io::Result<Work> {
    Ok(match job {
        Job::Open(path, mode) => Work::Open { path: text(&path)?, flags: open_flags(mode) },
        Job::Read(file, offset, len, mut buffer) => {
            buffer.clear();
            buffer.resize(len, 0);
            Work::Read { file, offset, buffer, done: 0 }
        }
        Job::Write(file, offset, buffer) => Work::Write { file, offset, buffer, done: 0 },
        Job::Sync(file, data_only) => Work::Sync { file, data_only },
        Job::Truncate(file, len) => Work::Truncate { file, len },
        Job::Rename(from, to) => Work::Rename { from: text(&from)?, to: text(&to)? },
        Job::Remove(path) => Work::Remove { path: text(&path)? },
        Job::MakeDirectory(path) => Work::MakeDirectory { path: text(&path)? },
        Job::SyncDirectory(path) => Work::OpenDirectory { path: text(&path)? },
        Job::List(_) => unreachable!("listing makes no request"),
    })
}

fn text(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn open_flags(mode: OpenMode) -> i32 {
    libc::O_CLOEXEC
        | match mode {
            OpenMode::Read => libc::O_RDONLY,
            OpenMode::Write => libc::O_RDWR,
            OpenMode::Create => libc::O_RDWR | libc::O_CREAT,
            OpenMode::CreateNew => libc::O_RDWR | libc::O_CREAT | libc::O_EXCL,
            OpenMode::Replace => libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC,
        }
}

impl Work {
    /// The request for what is left to do.
    fn entry(&mut self) -> squeue::Entry {
        let here = Fd(libc::AT_FDCWD);
        match self {
            Self::Open { path, flags } => {
                opcode::OpenAt::new(here, path.as_ptr()).flags(*flags).mode(FILE_MODE).build()
            }
            Self::Read { file, offset, buffer, done } => {
                let rest = &mut buffer[*done..];
                let len = rest.len().min(MOVE_MAX) as u32;
                opcode::Read::new(descriptor(file), rest.as_mut_ptr(), len)
                    .offset(*offset + *done as u64)
                    .build()
            }
            Self::Write { file, offset, buffer, done } => {
                let rest = &buffer[*done..];
                let len = rest.len().min(MOVE_MAX) as u32;
                opcode::Write::new(descriptor(file), rest.as_ptr(), len)
                    .offset(*offset + *done as u64)
                    .build()
            }
            Self::Sync { file, data_only } => {
                let flags = if *data_only { FsyncFlags::DATASYNC } else { FsyncFlags::empty() };
                opcode::Fsync::new(descriptor(file)).flags(flags).build()
            }
            Self::Truncate { file, len } => opcode::Ftruncate::new(descriptor(file), *len).build(),
            Self::Rename { from, to } => {
                opcode::RenameAt::new(here, from.as_ptr(), here, to.as_ptr()).build()
            }
            Self::Remove { path } => opcode::UnlinkAt::new(here, path.as_ptr()).build(),
            Self::MakeDirectory { path } => {
                opcode::MkDirAt::new(here, path.as_ptr()).mode(DIRECTORY_MODE).build()
            }
            Self::OpenDirectory { path } => {
                let flags = libc::O_CLOEXEC | libc::O_RDONLY | libc::O_DIRECTORY;
                opcode::OpenAt::new(here, path.as_ptr()).flags(flags).build()
            }
            Self::SyncDirectory { directory } => opcode::Fsync::new(descriptor(directory)).build(),
        }
    }

    /// What follows from the kernel's answer.
    fn step(self, result: i32) -> Step {
        if matches!(-result, libc::EINTR | libc::EAGAIN) {
            return Step::Again(self);
        }
        match self {
            // Before Linux 6.9 the ring could not do this; it is short.
            Self::Truncate { file, len } if -result == libc::EINVAL => {
                Step::Result(file.set_len(len).map(|()| FileOutput::Done))
            }
            _ if result < 0 => Step::Result(Err(io::Error::from_raw_os_error(-result))),
            Self::Open { .. } => Step::Opened(new_file(result)),
            Self::OpenDirectory { .. } => {
                Step::Again(Self::SyncDirectory { directory: new_file(result) })
            }
            Self::Read { file, offset, mut buffer, done } => {
                let done = done + result as usize;
                if result > 0 && done < buffer.len() {
                    return Step::Again(Self::Read { file, offset, buffer, done });
                }
                buffer.truncate(done);
                Step::Result(Ok(FileOutput::Read(buffer)))
            }
            Self::Write { file, offset, buffer, done } => {
                let done = done + result as usize;
                if done == buffer.len() {
                    Step::Result(Ok(FileOutput::Written(buffer)))
                } else if result == 0 {
                    Step::Result(Err(io::ErrorKind::WriteZero.into()))
                } else {
                    Step::Again(Self::Write { file, offset, buffer, done })
                }
            }
            _ => Step::Result(Ok(FileOutput::Done)),
        }
    }
}

fn descriptor(file: &impl AsRawFd) -> Fd {
    Fd(file.as_raw_fd())
}

fn new_file(result: i32) -> File {
    // SAFETY: an open's result is a new descriptor, told once.
    File::from(unsafe { OwnedFd::from_raw_fd(result) })
}
