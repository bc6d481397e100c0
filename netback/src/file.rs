//! File operations in the shape of completions.
//!
//! [`crate::Backend::submit_file`] takes an operation with a token of the caller's choice, and an
//! [`crate::Event::File`] with that token tells its result. Operations under way at the same time
//! take effect in any order: whoever needs one after another submits it after the other's event.
//! In particular a [`FileOp::Sync`] covers the writes whose events came before its submission.

use std::io;
use std::path::PathBuf;

/// Name of an operation, chosen by the caller; it need not be unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileToken(pub u64);

/// Name of an open file within its backend; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u64);

/// What [`FileOp::Open`] does where the file is missing or exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Opens an existing file to read.
    Read,
    /// Opens an existing file to read and write.
    Write,
    /// The same, and creates it where it is missing.
    Create,
    /// Creates a file; fails where one exists.
    CreateNew,
    /// Creates a file or empties the existing one.
    Replace,
}

/// What to do with a file.
#[derive(Debug)]
pub enum FileOp {
    /// Opens a file. New ones get the mode 0644, less the umask.
    Open {
        /// Where it is.
        path: PathBuf,
        /// Whether it may exist, or must.
        mode: OpenMode,
    },
    /// Reads bytes; fewer than asked for at the end of the file only.
    Read {
        /// The open file.
        file: FileId,
        /// Where in the file, in bytes.
        offset: u64,
        /// How many bytes.
        len: usize,
        /// Takes the bytes, from its beginning; what it held is dropped.
        buffer: Vec<u8>,
    },
    /// Writes all bytes of a buffer; a file that ends before `offset` is filled up with zeros.
    Write {
        /// The open file.
        file: FileId,
        /// Where in the file, in bytes.
        offset: u64,
        /// The bytes.
        buffer: Vec<u8>,
    },
    /// Brings what has been written to the medium. After a failure nobody knows what is there:
    /// a later success says nothing about bytes written before the failure.
    Sync {
        /// The open file.
        file: FileId,
        /// Bytes and length suffice; times may be lost.
        data_only: bool,
    },
    /// Cuts a file, or fills it up with zeros, to a length.
    Truncate {
        /// The open file.
        file: FileId,
        /// The new length in bytes.
        len: u64,
    },
    /// Closes a file. Operations on it that are under way are finished.
    Close {
        /// The open file.
        file: FileId,
    },
    /// Gives a file another name; a file of that name is replaced.
    Rename {
        /// The name.
        from: PathBuf,
        /// The new name.
        to: PathBuf,
    },
    /// Removes a file.
    Remove {
        /// Its name.
        path: PathBuf,
    },
    /// Makes a directory, of mode 0755 less the umask.
    MakeDirectory {
        /// Its name.
        path: PathBuf,
    },
    /// Brings the names in a directory to the medium: files created, renamed and removed.
    SyncDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// Lists the names in a directory.
    List {
        /// The directory.
        path: PathBuf,
    },
}

/// What an operation yields.
#[derive(Debug)]
pub enum FileOutput {
    /// Nothing but success.
    Done,
    /// The file that was opened, and its length in bytes.
    Opened {
        /// Its name from now on.
        file: FileId,
        /// Its length in bytes.
        len: u64,
    },
    /// The bytes that were read.
    Read(Vec<u8>),
    /// The buffer that was written, back to its owner.
    Written(Vec<u8>),
    /// Names in a directory, without its path, sorted.
    Names(Vec<PathBuf>),
}

/// What an operation comes to. A buffer does not come back from a failure.
pub type FileResult = io::Result<FileOutput>;
