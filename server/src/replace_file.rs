//! Replacing a file's text while the shard goes on: read it, write the new text beside it, bring
//! that to the medium, and only then give it the old one's name. Whoever opens the file finds the
//! old text or the new one, also after a crash.
//!
//! The steps are file operations of the backend, each submitted when the one before is over.

use std::io;
use std::path::{Path, PathBuf};

use netback::{ConnId, FileId, FileOp, FileOutput, FileResult, OpenMode};

/// The longest text that is read, in bytes; configuration files are far below. A longer one is left as
/// it is, since what is not read would be lost.
const TEXT_MAX: u64 = 64 << 20;

/// Makes the new text from the old one, which is empty if there is no file.
pub type Make = Box<dyn FnOnce(&[u8]) -> Vec<u8> + Send>;

/// For whom a text is replaced.
#[derive(Clone, Copy, Debug)]
pub enum Owner {
    /// A client, which waits for the answer to CONFIG REWRITE.
    Client(ConnId),
    /// The cluster: this version of its nodes.
    Cluster(u64),
}

/// A replacement under way.
pub struct ReplaceFile {
    path: PathBuf,
    /// Where the new text is written.
    temporary: PathBuf,
    step: Step,
}

/// What the operation that was submitted last does.
enum Step {
    OpenOld(Make),
    Read(FileId, Make),
    CloseOld(Vec<u8>),
    /// The old file, which could not be read whole, is closed.
    CloseUnread(io::Error),
    OpenNew(Vec<u8>),
    Write(FileId),
    Sync(FileId),
    CloseNew,
    Rename,
    SyncDirectory,
    /// The new file, which something went wrong with, is closed and removed.
    CloseFailed(io::Error),
    Remove(io::Error),
}

/// What comes after an operation.
pub enum Next {
    /// Another operation.
    Submit(ReplaceFile, FileOp),
    /// The end.
    Over(io::Result<()>),
}

impl ReplaceFile {
    /// A replacement of the text in `path`, and its first operation. `unique` tells its temporary
    /// file from those of others.
    pub fn start(path: PathBuf, unique: u64, make: Make) -> (Self, FileOp) {
        let mut temporary = path.clone().into_os_string();
        temporary.push(format!(".{}-{unique}.tmp", std::process::id()));
        let op = FileOp::Open { path: path.clone(), mode: OpenMode::Read };
        (Self { path, temporary: temporary.into(), step: Step::OpenOld(make) }, op)
    }

    /// Takes the result of the operation under way.
    pub fn advance(self, result: FileResult) -> Next {
        let Self { path, temporary, step } = self;
        let open_new = || FileOp::Open { path: temporary.clone(), mode: OpenMode::Replace };
        let (step, op) = match (step, result) {
            (Step::OpenOld(_), Ok(FileOutput::Opened { file, len })) if len > TEXT_MAX => {
                let error = io::Error::new(io::ErrorKind::FileTooLarge, "File too large");
                (Step::CloseUnread(error), FileOp::Close { file })
            }
            (Step::OpenOld(make), Ok(FileOutput::Opened { file, len })) => {
                let len = len as usize;
                let op = FileOp::Read { file, offset: 0, len, buffer: Vec::new() };
                (Step::Read(file, make), op)
            }
            (Step::OpenOld(make), Err(error)) if error.kind() == io::ErrorKind::NotFound => {
                (Step::OpenNew(make(b"")), open_new())
            }
            (Step::Read(file, make), Ok(FileOutput::Read(old))) => {
                (Step::CloseOld(make(&old)), FileOp::Close { file })
            }
            (Step::Read(file, _), Err(error)) => (Step::CloseUnread(error), FileOp::Close { file }),
            (Step::CloseUnread(error), _) => return Next::Over(Err(error)),
            (Step::CloseOld(new), Ok(_)) => (Step::OpenNew(new), open_new()),
            (Step::OpenNew(new), Ok(FileOutput::Opened { file, .. })) => {
                (Step::Write(file), FileOp::Write { file, offset: 0, buffer: new })
            }
            (Step::Write(file), Ok(_)) => {
                (Step::Sync(file), FileOp::Sync { file, data_only: false })
            }
            (Step::Sync(file), Ok(_)) => (Step::CloseNew, FileOp::Close { file }),
            (Step::CloseNew, Ok(_)) => {
                let (from, to) = (temporary.clone(), path.clone());
                (Step::Rename, FileOp::Rename { from, to })
            }
            (Step::Rename, Ok(_)) => {
                let folder = folder(&path).to_owned();
                (Step::SyncDirectory, FileOp::SyncDirectory { path: folder })
            }
            (Step::SyncDirectory, result) => return Next::Over(result.map(drop)),
            (Step::Write(file) | Step::Sync(file), Err(error)) => {
                (Step::CloseFailed(error), FileOp::Close { file })
            }
            (Step::CloseNew | Step::Rename, Err(error)) | (Step::CloseFailed(error), _) => {
                (Step::Remove(error), FileOp::Remove { path: temporary.clone() })
            }
            (Step::Remove(error), _) => return Next::Over(Err(error)),
            // The old file could not be opened or closed, or the new one not be made.
            (_, Err(error)) => return Next::Over(Err(error)),
            (_, Ok(output)) => unreachable!("no operation of ours yields {output:?} here"),
        };
        Next::Submit(Self { path, temporary, step }, op)
    }
}

/// The folder of a file; a bare name lies in the working directory.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use netback::sim::{DiskFaults, Faults, Sim, SimDisk, SimNet};
    use netback::{Backend, Event, FileToken};

    fn make() -> Make {
        Box::new(|old| [old, b"new"].concat())
    }

    /// Runs a replacement on a backend to its end, or for so many operations.
    fn run(backend: &mut Sim, operations: usize) -> Option<io::Result<()>> {
        let (mut job, op) = ReplaceFile::start("/etc/a.conf".into(), 7, make());
        backend.submit_file(FileToken(1), op);
        for _ in 0..operations {
            let mut came = None;
            while came.is_none() {
                let wait = backend.wait(Some(Duration::from_millis(10)), &mut |event| {
                    if let Event::File { result, .. } = event {
                        came = Some(result);
                    }
                });
                wait.expect("a working backend");
            }
            match job.advance(came.expect("a result")) {
                Next::Over(result) => return Some(result),
                Next::Submit(next, op) => {
                    job = next;
                    backend.submit_file(FileToken(1), op);
                }
            }
        }
        None
    }

    fn disk(seed: u64) -> SimDisk {
        let disk = SimDisk::new(seed, DiskFaults::NONE);
        disk.make_directory(Path::new("/etc"));
        disk
    }

    #[test]
    fn a_text_is_made_from_the_old_one() {
        let disk = disk(1);
        let mut backend = SimNet::new(1, Faults::NONE).with_disk(disk.clone()).backend();
        for expected in [&b"new"[..], b"newnew"] {
            run(&mut backend, usize::MAX).expect("an end").expect("success");
            assert_eq!(disk.contents(Path::new("/etc/a.conf")).as_deref(), Some(expected));
        }
    }

    /// The operations of a replacement, each with a result that is not looked at by a disk.
    fn operations(results: Vec<FileResult>) -> (Vec<FileOp>, io::Result<()>) {
        let (mut job, op) = ReplaceFile::start("/etc/a.conf".into(), 7, make());
        let mut ops = vec![op];
        for result in results {
            match job.advance(result) {
                Next::Over(result) => return (ops, result),
                Next::Submit(next, op) => {
                    job = next;
                    ops.push(op);
                }
            }
        }
        panic!("no end after {ops:?}");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_closed() {
        let file = FileId(3);
        let failed = || Err(io::Error::from_raw_os_error(5));
        let opened = Ok(FileOutput::Opened { file, len: 10 });
        let (ops, result) = operations(vec![opened, failed(), Ok(FileOutput::Done)]);
        assert!(matches!(ops.last(), Some(FileOp::Close { file: FileId(3) })), "{ops:?}");
        assert_eq!(result.expect_err("the reason").raw_os_error(), Some(5));
    }

    #[test]
    fn a_file_that_is_too_long_is_left_as_it_is() {
        let opened = Ok(FileOutput::Opened { file: FileId(3), len: TEXT_MAX + 1 });
        let (ops, result) = operations(vec![opened, Ok(FileOutput::Done)]);
        assert_eq!(ops.len(), 2, "{ops:?}");
        assert!(matches!(ops[1], FileOp::Close { file: FileId(3) }), "{ops:?}");
        assert_eq!(result.expect_err("the reason").kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn after_a_crash_at_any_step_the_file_is_old_or_new() {
        for operations in 0..12 {
            for seed in 0..20 {
                let disk = disk(seed);
                let machine = SimNet::new(seed, Faults::NONE).with_disk(disk.clone());
                let mut backend = machine.backend();
                run(&mut backend, usize::MAX).expect("an end").expect("success");
                let ended = run(&mut backend, operations);
                drop(backend);
                disk.crash();
                let text = disk.contents(Path::new("/etc/a.conf"));
                let text = text.as_deref().unwrap_or(b"nothing");
                assert!(text == b"newnew" || (text == b"new" && ended.is_none()), "{text:?}");
            }
        }
    }
}
