//! File operations: what they yield, on real files and simulated ones.

use std::io;
use std::path::PathBuf;

use super::{Rig, World, pattern};
use crate::{FileId, FileOp, FileOutput, FileToken, OpenMode};

/// Does one operation and waits for its result.
fn call<W: World>(rig: &mut Rig<W>, op: FileOp) -> io::Result<FileOutput> {
    let token = FileToken(rig.next_token());
    crate::Backend::submit_file(&mut rig.backend, token, op);
    rig.file_result(token)
}

fn done<W: World>(rig: &mut Rig<W>, op: FileOp) {
    assert!(matches!(call(rig, op), Ok(FileOutput::Done)));
}

fn open<W: World>(rig: &mut Rig<W>, path: PathBuf, mode: OpenMode) -> io::Result<(FileId, u64)> {
    call(rig, FileOp::Open { path, mode }).map(|output| match output {
        FileOutput::Opened { file, len } => (file, len),
        other => panic!("{other:?}"),
    })
}

fn write<W: World>(rig: &mut Rig<W>, file: FileId, offset: u64, bytes: &[u8]) {
    match call(rig, FileOp::Write { file, offset, buffer: bytes.to_vec() }) {
        Ok(FileOutput::Written(buffer)) => assert!(buffer == bytes),
        other => panic!("{other:?}"),
    }
}

fn read<W: World>(rig: &mut Rig<W>, file: FileId, offset: u64, len: usize) -> Vec<u8> {
    match call(rig, FileOp::Read { file, offset, len, buffer: vec![9; 3] }) {
        Ok(FileOutput::Read(bytes)) => bytes,
        other => panic!("{other:?}"),
    }
}

fn names<W: World>(rig: &mut Rig<W>) -> Vec<String> {
    let path = rig.world.directory();
    match call(rig, FileOp::List { path }) {
        Ok(FileOutput::Names(names)) => {
            names.iter().map(|name| name.to_str().unwrap().to_owned()).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn kind<T: std::fmt::Debug>(result: io::Result<T>) -> io::ErrorKind {
    result.unwrap_err().kind()
}

pub(crate) fn writes_and_reads_back<W: World>(mut rig: Rig<W>) {
    let path = rig.world.directory().join("data");
    let (file, len) = open(&mut rig, path.clone(), OpenMode::CreateNew).unwrap();
    assert_eq!(len, 0);
    let bytes = pattern(3 << 20);
    write(&mut rig, file, 0, &bytes);
    done(&mut rig, FileOp::Sync { file, data_only: true });
    done(&mut rig, FileOp::Sync { file, data_only: false });
    assert!(read(&mut rig, file, 0, bytes.len()) == bytes);
    assert_eq!(read(&mut rig, file, 1000, 5), bytes[1000..1005]);
    done(&mut rig, FileOp::Close { file });
    let (file, len) = open(&mut rig, path, OpenMode::Read).unwrap();
    assert_eq!(len, bytes.len() as u64);
    assert!(read(&mut rig, file, 0, bytes.len()) == bytes);
    assert!(call(&mut rig, FileOp::Write { file, offset: 0, buffer: vec![1] }).is_err());
}

pub(crate) fn writes_anywhere<W: World>(mut rig: Rig<W>) {
    let path = rig.world.directory().join("data");
    let (file, _) = open(&mut rig, path, OpenMode::Create).unwrap();
    write(&mut rig, file, 0, b"one");
    write(&mut rig, file, 3, b"two");
    write(&mut rig, file, 1, b"N");
    assert_eq!(read(&mut rig, file, 0, 100), b"oNetwo", "a read ends where the file does");
    write(&mut rig, file, 8, b"far");
    assert_eq!(read(&mut rig, file, 5, 100), b"o\0\0far");
    assert_eq!(read(&mut rig, file, 100, 5), b"");
    assert_eq!(read(&mut rig, file, 0, 0), b"");
    write(&mut rig, file, 0, b"");
}

pub(crate) fn truncates<W: World>(mut rig: Rig<W>) {
    let path = rig.world.directory().join("data");
    let (file, _) = open(&mut rig, path.clone(), OpenMode::Create).unwrap();
    write(&mut rig, file, 0, b"0123456789");
    done(&mut rig, FileOp::Truncate { file, len: 4 });
    assert_eq!(read(&mut rig, file, 0, 100), b"0123");
    done(&mut rig, FileOp::Truncate { file, len: 6 });
    assert_eq!(read(&mut rig, file, 0, 100), b"0123\0\0");
    let check = |rig: &mut Rig<W>, mode, expected: u64| {
        let (file, len) = open(rig, path.clone(), mode).unwrap();
        assert_eq!(len, expected);
        done(rig, FileOp::Close { file });
    };
    check(&mut rig, OpenMode::Read, 6);
    check(&mut rig, OpenMode::Write, 6);
    check(&mut rig, OpenMode::Create, 6);
    check(&mut rig, OpenMode::Replace, 0);
}

pub(crate) fn renames_and_removes<W: World>(mut rig: Rig<W>) {
    let directory = rig.world.directory();
    let (old, new) = (directory.join("old"), directory.join("new"));
    let (file, _) = open(&mut rig, old.clone(), OpenMode::Create).unwrap();
    write(&mut rig, file, 0, b"kept");
    let (other, _) = open(&mut rig, new.clone(), OpenMode::Create).unwrap();
    write(&mut rig, other, 0, b"replaced");
    assert_eq!(names(&mut rig), ["new", "old"]);
    done(&mut rig, FileOp::Rename { from: old.clone(), to: new.clone() });
    assert_eq!(names(&mut rig), ["new"]);
    // Open files stay what they are.
    assert_eq!(read(&mut rig, file, 0, 100), b"kept");
    assert_eq!(read(&mut rig, other, 0, 100), b"replaced");
    let (again, len) = open(&mut rig, new.clone(), OpenMode::Read).unwrap();
    assert_eq!((read(&mut rig, again, 0, 100), len), (b"kept".to_vec(), 4));
    done(&mut rig, FileOp::Remove { path: new.clone() });
    assert_eq!(read(&mut rig, again, 0, 100), b"kept");
    assert!(names(&mut rig).is_empty());
    assert_eq!(kind(open(&mut rig, old, OpenMode::Read)), io::ErrorKind::NotFound);
}

pub(crate) fn syncs_directories<W: World>(mut rig: Rig<W>) {
    let path = rig.world.directory().join("inner");
    done(&mut rig, FileOp::MakeDirectory { path: path.clone() });
    open(&mut rig, path.join("data"), OpenMode::Create).unwrap();
    let outer = rig.world.directory();
    done(&mut rig, FileOp::SyncDirectory { path: path.clone() });
    done(&mut rig, FileOp::SyncDirectory { path: outer });
    assert_eq!(names(&mut rig), ["inner"]);
    let again = call(&mut rig, FileOp::MakeDirectory { path });
    assert_eq!(kind(again), io::ErrorKind::AlreadyExists);
}

pub(crate) fn errors_are_results<W: World>(mut rig: Rig<W>) {
    let missing = rig.world.directory().join("missing");
    let open_missing = |rig: &mut Rig<W>, mode| kind(open(rig, missing.clone(), mode));
    assert_eq!(open_missing(&mut rig, OpenMode::Read), io::ErrorKind::NotFound);
    assert_eq!(open_missing(&mut rig, OpenMode::Write), io::ErrorKind::NotFound);
    let deep = missing.join("deep");
    assert_eq!(kind(open(&mut rig, deep, OpenMode::Create)), io::ErrorKind::NotFound);
    let remove = call(&mut rig, FileOp::Remove { path: missing.clone() });
    assert_eq!(kind(remove), io::ErrorKind::NotFound);
    let rename = call(&mut rig, FileOp::Rename { from: missing.clone(), to: missing.clone() });
    assert_eq!(kind(rename), io::ErrorKind::NotFound);
    let list = call(&mut rig, FileOp::List { path: missing.clone() });
    assert_eq!(kind(list), io::ErrorKind::NotFound);
    let sync = call(&mut rig, FileOp::SyncDirectory { path: missing.clone() });
    assert_eq!(kind(sync), io::ErrorKind::NotFound);
    let (file, _) = open(&mut rig, missing.clone(), OpenMode::CreateNew).unwrap();
    let second = open(&mut rig, missing, OpenMode::CreateNew);
    assert_eq!(kind(second), io::ErrorKind::AlreadyExists);
    done(&mut rig, FileOp::Close { file });
    assert!(call(&mut rig, FileOp::Close { file }).is_err(), "a file is closed once");
    assert!(call(&mut rig, FileOp::Sync { file, data_only: true }).is_err());
    let op = FileOp::Read { file, offset: 0, len: 1, buffer: Vec::new() };
    assert!(call(&mut rig, op).is_err());
}

pub(crate) fn does_many_file_operations_at_once<W: World>(mut rig: Rig<W>) {
    rig.echoes = true;
    let (mut client, _) = rig.pair();
    let path = rig.world.directory().join("data");
    let (file, _) = open(&mut rig, path.clone(), OpenMode::Create).unwrap();
    let bytes = pattern(2000 * 64);
    let mut tokens = Vec::new();
    for (index, part) in bytes.chunks(64).enumerate() {
        let token = FileToken(rig.next_token());
        let op = FileOp::Write { file, offset: index as u64 * 64, buffer: part.to_vec() };
        crate::Backend::submit_file(&mut rig.backend, token, op);
        tokens.push(token);
    }
    // The network is served meanwhile.
    rig.write(&mut *client, b"meanwhile");
    assert_eq!(rig.read(&mut *client, 9), b"meanwhile");
    // Those under way are finished although the file is closed.
    done(&mut rig, FileOp::Close { file });
    for token in tokens {
        assert!(matches!(rig.file_result(token), Ok(FileOutput::Written(_))));
    }
    let (file, _) = open(&mut rig, path, OpenMode::Read).unwrap();
    assert!(read(&mut rig, file, 0, bytes.len() + 1) == bytes);
}

pub(crate) fn file_results_end_a_wait<W: World>(mut rig: Rig<W>) {
    let path = rig.world.directory().join("data");
    let (file, _) = open(&mut rig, path, OpenMode::Create).unwrap();
    rig.settle();
    for _ in 0..20 {
        let token = FileToken(rig.next_token());
        let op = FileOp::Sync { file, data_only: true };
        crate::Backend::submit_file(&mut rig.backend, token, op);
        let start = rig.world.now();
        while !rig.files.contains_key(&token) {
            rig.turn(std::time::Duration::from_secs(30));
        }
        assert!(rig.world.now() - start < std::time::Duration::from_secs(20));
        assert!(matches!(rig.file_result(token), Ok(FileOutput::Done)));
    }
    assert_eq!(rig.wakes, 0, "no one has used a waker");
}
