//! Replacing a file's text while the shard goes on: read it, write the new text beside it, bring
//! that to the medium, and only then give it the old one's name. Whoever opens the file finds the
//! old text or the new one, also after a crash.
//!
//! The steps are file operations of the backend, each submitted when the one before is over.

use std::io;
use std::path::{Path, PathBuf};

use netback::{FileId, FileOp, FileOutput, FileResult, OpenMode};

/// The longest text that is read, in bytes; configuration files are far below.
const TEXT_MAX: u64 = 64 << 20;

/// Makes the new text from the old one, which is empty if there is no file.
pub type Make = Box<dyn FnOnce(&[u8]) -> Vec<u8> + Send>;

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
            (Step::OpenOld(make), Ok(FileOutput::Opened { file, len })) => {
                let len = len.min(TEXT_MAX) as usize;
                let op = FileOp::Read { file, offset: 0, len, buffer: Vec::new() };
                (Step::Read(file, make), op)
            }
            (Step::OpenOld(make), Err(error)) if error.kind() == io::ErrorKind::NotFound => {
                (Step::OpenNew(make(b"")), open_new())
            }
            (Step::Read(file, make), Ok(FileOutput::Read(old))) => {
                (Step::CloseOld(make(&old)), FileOp::Close { file })
            }
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
            // The old file could not be read, or the new one not be made.
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
