//! What a simulated disk keeps, loses and tears.

use std::path::Path;
use std::time::Duration;

use super::super::{DiskFaults, Faults, Sim, SimDisk, SimNet};
use crate::{Backend, Event, FileId, FileOp, FileOutput, FileResult, FileToken, OpenMode};

const SEEDS: u64 = 300;

/// A machine that can crash.
struct Machine {
    net: SimNet,
    disk: SimDisk,
    backend: Sim,
}

impl Machine {
    fn new(seed: u64, faults: DiskFaults) -> Self {
        let disk = SimDisk::new(seed, faults);
        disk.make_directory("/data".as_ref());
        let net = SimNet::new(seed, Faults::NONE).with_disk(disk.clone());
        let backend = net.backend();
        Self { net, disk, backend }
    }

    fn submit(&mut self, token: u64, op: FileOp) {
        self.backend.submit_file(FileToken(token), op);
    }

    /// Waits for one result.
    fn result(&mut self) -> (u64, FileResult) {
        let mut told = Vec::new();
        while told.is_empty() {
            self.backend
                .wait(None, &mut |event| match event {
                    Event::File { token, result } => told.push((token.0, result)),
                    _ => panic!("only files are used"),
                })
                .unwrap();
        }
        assert_eq!(told.len(), 1, "one is under way");
        told.remove(0)
    }

    fn call(&mut self, op: FileOp) -> FileResult {
        self.submit(0, op);
        self.result().1
    }

    fn open(&mut self, path: &str, mode: OpenMode) -> FileId {
        match self.call(FileOp::Open { path: path.into(), mode }) {
            Ok(FileOutput::Opened { file, .. }) => file,
            other => panic!("{other:?}"),
        }
    }

    fn write(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> FileResult {
        self.call(FileOp::Write { file, offset, buffer: bytes.to_vec() })
    }

    fn sync(&mut self, file: FileId) -> FileResult {
        self.call(FileOp::Sync { file, data_only: true })
    }

    fn sync_directory(&mut self) {
        self.call(FileOp::SyncDirectory { path: "/data".into() }).unwrap();
    }

    fn crash(&mut self) {
        self.backend = self.net.backend();
        self.disk.crash();
    }

    fn contents(&self, path: &str) -> Option<Vec<u8>> {
        self.disk.contents(Path::new(path))
    }
}

#[test]
fn what_was_synced_survives_and_the_rest_may_be_torn() {
    let (mut whole, mut lost, mut torn) = (0, 0, 0);
    for seed in 0..SEEDS {
        let mut machine = Machine::new(seed, DiskFaults::NONE);
        let file = machine.open("/data/log", OpenMode::CreateNew);
        machine.write(file, 0, &[1; 3000]).unwrap();
        machine.sync(file).unwrap();
        machine.sync_directory();
        machine.write(file, 3000, &[2; 3000]).unwrap();
        machine.crash();
        let bytes = machine.contents("/data/log").expect("its name was synced");
        assert_eq!(bytes[..3000], [1; 3000], "seed {seed}");
        assert!(bytes[3000..].iter().all(|byte| [0, 2].contains(byte)));
        match bytes[3000..].iter().filter(|byte| **byte == 2).count() {
            0 => lost += 1,
            3000 => whole += 1,
            _ => torn += 1,
        }
    }
    assert!(whole > 0 && lost > 0 && torn > 0, "{whole} whole, {lost} lost, {torn} torn");
}

#[test]
fn names_that_were_not_synced_may_be_lost() {
    let mut kept = 0;
    for seed in 0..SEEDS {
        let mut machine = Machine::new(seed, DiskFaults::NONE);
        for path in ["/data/a", "/data/b"] {
            let file = machine.open(path, OpenMode::CreateNew);
            machine.write(file, 0, b"bytes").unwrap();
            machine.sync(file).unwrap();
        }
        machine.crash();
        let (a, b) = (machine.contents("/data/a"), machine.contents("/data/b"));
        assert!(a.is_some() || b.is_none(), "names are kept in their order");
        assert!(a.iter().chain(&b).all(|bytes| bytes == b"bytes"));
        kept += usize::from(a.is_some()) + usize::from(b.is_some());
    }
    assert!(kept > 0 && kept < 2 * SEEDS as usize);
}

/// The way to replace a file: write another, sync it, rename it, sync the directory.
#[test]
fn a_replaced_file_is_the_old_or_the_new_one() {
    let (mut old, mut new) = (0, 0);
    for seed in 0..SEEDS {
        let mut machine = Machine::new(seed, DiskFaults::NONE);
        let file = machine.open("/data/file", OpenMode::CreateNew);
        machine.write(file, 0, &[1; 2000]).unwrap();
        machine.sync(file).unwrap();
        machine.sync_directory();
        let file = machine.open("/data/new", OpenMode::CreateNew);
        machine.write(file, 0, &[2; 4000]).unwrap();
        machine.sync(file).unwrap();
        let (from, to) = ("/data/new".into(), "/data/file".into());
        machine.call(FileOp::Rename { from, to }).unwrap();
        if seed % 2 == 0 {
            machine.sync_directory();
        }
        machine.crash();
        match machine.contents("/data/file") {
            Some(bytes) if bytes == [1; 2000] && seed % 2 == 1 => old += 1,
            Some(bytes) if bytes == [2; 4000] => new += 1,
            other => panic!("seed {seed}: {other:?}"),
        }
    }
    assert!(old > 0 && new > 0);
}

#[test]
fn a_sync_covers_what_was_told_before_it() {
    let faults = DiskFaults { delay_max: Duration::from_millis(5), ..DiskFaults::NONE };
    let mut lost = 0;
    for seed in 0..SEEDS {
        let mut machine = Machine::new(seed, faults);
        let file = machine.open("/data/log", OpenMode::CreateNew);
        machine.sync_directory();
        machine.write(file, 0, b"a").unwrap();
        machine.submit(1, FileOp::Write { file, offset: 1, buffer: b"b".to_vec() });
        machine.submit(2, FileOp::Sync { file, data_only: true });
        let mut told = [machine.result().0, machine.result().0];
        told.sort_unstable();
        assert_eq!(told, [1, 2]);
        machine.crash();
        let bytes = machine.contents("/data/log").unwrap();
        assert_eq!(bytes[0], b'a', "seed {seed}");
        lost += usize::from(bytes.get(1) != Some(&b'b'));
    }
    assert!(lost > 0, "a sync does not cover a write that was under way with it");
}

#[test]
fn a_failed_sync_loses_for_good() {
    let faults = DiskFaults { failed_syncs: 1000, ..DiskFaults::NONE };
    let mut lost = 0;
    for seed in 0..SEEDS {
        let mut machine = Machine::new(seed, DiskFaults::NONE);
        let file = machine.open("/data/log", OpenMode::CreateNew);
        machine.sync_directory();
        machine.write(file, 0, b"bytes").unwrap();
        machine.disk.set_faults(faults);
        assert!(machine.sync(file).is_err());
        machine.disk.set_faults(DiskFaults::NONE);
        // A second try says that all is well and is not to be believed.
        machine.sync(file).unwrap();
        assert_eq!(machine.contents("/data/log").unwrap(), b"bytes");
        machine.crash();
        lost += usize::from(machine.contents("/data/log").unwrap() != b"bytes");
    }
    assert!(lost > 0);
}

#[test]
fn what_is_under_way_when_the_program_ends_happens_or_not() {
    let mut happened = 0;
    let faults = DiskFaults { delay_max: Duration::from_millis(5), ..DiskFaults::NONE };
    for seed in 0..SEEDS {
        let mut machine = Machine::new(seed, faults);
        let file = machine.open("/data/log", OpenMode::CreateNew);
        machine.submit(1, FileOp::Write { file, offset: 0, buffer: b"late".to_vec() });
        machine.backend = machine.net.backend();
        happened += u64::from(machine.contents("/data/log").unwrap() == b"late");
    }
    assert!(happened > 0 && happened < SEEDS);
}

#[test]
fn operations_fail_by_seed() {
    let faults = DiskFaults { failures: 300, failed_syncs: 300, delay_max: Duration::ZERO };
    let count = |seed| {
        let mut machine = Machine::new(seed, DiskFaults::NONE);
        let file = machine.open("/data/log", OpenMode::CreateNew);
        machine.disk.set_faults(faults);
        (0..100).filter(|_| machine.write(file, 0, b"x").is_err()).count()
    };
    assert!((10..60).contains(&count(1)));
    assert_eq!(count(2), count(2));
}
