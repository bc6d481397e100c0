//! Keeping the cluster over restarts: the file `cluster-config-file`, read at start, and written by the
//! first shard when the nodes or their hash slots have changed.
//!
//! Shards count changes by a version. Whoever changes something asks for a file of the new version; the
//! first shard writes one file at a time, of the state at that moment, and tells up to which version
//! it has come. So several changes may share a file, and an older text never replaces a newer one.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use netback::ConnId;

use super::nodes_file::{Node, NodesFile};
use super::{Cluster, Endpoint};
use crate::command::dispatch::CommandCtx;
use crate::command::error::CommandError;
use crate::config::Config;
use crate::input::Core;
use crate::keyspace::ShardSet;
use crate::process::Process;
use crate::replace_file::{Owner, ReplaceFile};
use crate::resp::Reply;
use crate::start::{Failed, fail, plain};
use crate::state::ShardState;

/// The longest file that is read, in bytes: some thousand nodes with scattered hash slots.
const FILE_LEN_MAX: u64 = 16 << 20;

/// The shard that writes the file.
const WRITER: usize = 0;

/// The file of a cluster.
#[derive(Debug)]
pub struct Saving {
    path: PathBuf,
    progress: Mutex<Progress>,
}

#[derive(Debug)]
struct Progress {
    /// Holds the lock that keeps other servers from the file.
    lock: File,
    /// The version of the cluster that the file should have.
    wanted: u64,
    /// The version that was written last, or whose writing failed.
    done: u64,
    /// Why it failed.
    error: Option<String>,
    /// A file is being written.
    is_writing: bool,
}

impl Saving {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().expect("no thread panics while it holds the lock")
    }

    /// Asks for a file with all changes so far; returns the version that it must have.
    fn ask(&self) -> u64 {
        let mut progress = self.progress();
        progress.wanted += 1;
        progress.wanted
    }

    /// Begins to write a file, if one is asked for and none is being written.
    fn begin(&self) -> Option<u64> {
        let mut progress = self.progress();
        let is_due = !progress.is_writing && progress.wanted > progress.done;
        progress.is_writing |= is_due;
        is_due.then_some(progress.wanted)
    }

    /// Takes note that a file has been written.
    fn end(&self, version: u64, result: io::Result<()>) {
        // The new file is another one than that which was locked.
        let lock = result.and_then(|()| lock(&self.path));
        let mut progress = self.progress();
        (progress.is_writing, progress.done) = (false, version);
        match lock {
            Ok(lock) => (progress.lock, progress.error) = (lock, None),
            Err(error) => {
                let error = plain(&error);
                let path = self.path.display();
                crate::warning!("Can't update the cluster configuration file {path}: {error}");
                progress.error = Some(error);
            }
        }
    }

    /// What came of asking for a version, if that is known.
    fn outcome(&self, version: u64) -> Option<Result<(), String>> {
        let progress = self.progress();
        (progress.done >= version).then(|| progress.error.clone().map_or(Ok(()), Err))
    }

    /// Whether all that was asked for is written, or has failed.
    fn is_over(&self) -> bool {
        let progress = self.progress();
        progress.done >= progress.wanted
    }
}

/// Opens a file, which is made if there is none, and locks it.
fn lock(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::Error(error)) => Err(error),
        Err(TryLockError::WouldBlock) => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "another server uses it; each needs a 'cluster-config-file' of its own",
        )),
    }
}

impl Cluster {
    /// Takes the cluster up where its file has it, and keeps it there from now on. Called at start.
    ///
    /// # Errors
    /// [`Failed`] after a log line with the reason: the file is in use, corrupt, or of a cluster that
    /// this server cannot be a node of.
    pub fn keep_in(&mut self, path: PathBuf, config: &Config) -> Result<(), Failed> {
        let shown = path.display().to_string();
        let failed = |reason: &str| fail(&format!("Cluster configuration file {shown}: {reason}"));
        let mut lock = lock(&path).map_err(|error| failed(&plain(&error)))?;
        let mut text = Vec::new();
        let read = Read::by_ref(&mut lock).take(FILE_LEN_MAX + 1).read_to_end(&mut text);
        read.map_err(|error| failed(&plain(&error)))?;
        if text.len() as u64 > FILE_LEN_MAX {
            return Err(failed("it is too long"));
        }
        let file = NodesFile::parse(&text)
            .map_err(|fault| failed(&format!("line {} is wrong: {}", fault.line, fault.reason)))?;
        self.take_up(&file).map_err(failed)?;
        let found = if file.nodes.is_empty() { "No cluster" } else { "The cluster" };
        crate::notice!("{found} in {shown}, I'm {}", self.node_ids[0]);
        let wanted = u64::from(self.as_file(config).text().as_bytes() != text);
        let progress = Progress { lock, wanted, done: 0, error: None, is_writing: false };
        self.saving = Some(Saving { path, progress: Mutex::new(progress) });
        Ok(())
    }

    /// Takes over what a file says.
    fn take_up(&mut self, file: &NodesFile) -> Result<(), &'static str> {
        if self.per_shard {
            // The hash slots follow from the number of shards, which may have changed.
            for (index, node) in file.nodes.iter().take(self.nodes()).enumerate() {
                self.take_up_names(index, node);
            }
            return Ok(());
        }
        let own = match file.nodes.as_slice() {
            [] => return Ok(()),
            [own] => own,
            _ => return Err("it names other nodes, which a server cannot join yet"),
        };
        if !own.is_own {
            return Err("no node is 'myself'");
        }
        if own.is_replica || own.is_migrating {
            return Err("its node depends on another one, which a server cannot join yet");
        }
        self.take_up_names(0, own);
        (self.current_epoch, self.last_vote_epoch) = (file.current_epoch, file.last_vote_epoch);
        self.own_epoch = own.epoch;
        for (first, last) in &own.ranges {
            (*first..=*last).for_each(|slot| self.assign(slot as u16, true));
        }
        Ok(())
    }

    fn take_up_names(&mut self, index: usize, node: &Node) {
        self.node_ids[index].clone_from(&node.id);
        if let Some(shard_id) = &node.shard_id {
            self.shard_ids[index].clone_from(shard_id);
        }
    }

    /// What the file should say.
    fn as_file(&self, config: &Config) -> NodesFile {
        let nodes = (0..self.nodes()).map(|index| {
            let Endpoint { ip, port, bus_port, hostname } = Endpoint::announced(index, config);
            Node {
                id: self.node_ids[index].clone(),
                address: format!("{ip}:{port}@{bus_port},{hostname}"),
                shard_id: Some(self.shard_ids[index].clone()),
                is_own: index == 0,
                epoch: self.epoch_of(index),
                ranges: self.ranges(index),
                ..Node::default()
            }
        });
        NodesFile {
            nodes: nodes.collect(),
            current_epoch: self.current_epoch(),
            last_vote_epoch: self.last_vote_epoch,
        }
    }
}

impl CommandCtx<'_> {
    /// Answers OK when the file has what was changed, at once if there is none. A transaction does not
    /// wait for it.
    pub(crate) fn ok_when_saved(&mut self) {
        let Some(saving) = &self.shard.process.cluster.saving else { return self.reply.ok() };
        let version = saving.ask();
        self.shard.wake.unite(ShardSet::one(WRITER));
        if !self.may_block() {
            return self.reply.ok();
        }
        self.await_file();
        self.shard.await_saved.push((self.client.conn, version));
    }
}

impl ShardState {
    /// Begins to write the cluster's file if this shard has to.
    pub(crate) fn save_cluster(&mut self) {
        let Some(saving) = self.process.cluster.saving.as_ref().filter(|_| self.index == WRITER)
        else {
            return;
        };
        let Some(version) = saving.begin() else { return };
        let process = Arc::clone(&self.process);
        let make = move |_: &[u8]| {
            let file = process.cluster.as_file(&process.config());
            file.text().into_bytes()
        };
        // No client has the number 0.
        let (job, op) = ReplaceFile::start(saving.path.clone(), 0, Box::new(make));
        self.file_jobs.push((Owner::Cluster(version), job, op));
    }

    /// Whether this shard has to write the cluster's file before it may end.
    pub(crate) fn has_cluster_to_save(&self) -> bool {
        let saving = self.process.cluster.saving.as_ref().filter(|_| self.index == WRITER);
        saving.is_some_and(|saving| !saving.is_over())
    }
}

impl Process {
    /// Takes note that the cluster's file has been written, and has the shards tell their clients.
    pub(crate) fn cluster_saved(&self, version: u64, result: io::Result<()>) {
        if let Some(saving) = &self.cluster.saving {
            saving.end(version, result);
            self.wake_all();
        }
    }
}

impl Core {
    /// Answers the clients that wait for the cluster's file.
    pub(crate) fn answer_saved(&mut self) {
        let own = self.state.index;
        for (conn, version) in std::mem::take(&mut self.state.await_saved) {
            match self.outcome_of_saving(version) {
                None => self.state.await_saved.push((conn, version)),
                Some(reply) => self.answered(own, conn, reply),
            }
        }
    }

    fn outcome_of_saving(&mut self, version: u64) -> Option<Vec<u8>> {
        let outcome = self.state.process.cluster.saving.as_ref()?.outcome(version)?;
        // Both versions of the protocol have these replies in common.
        let mut reply = Reply::default();
        match outcome {
            Ok(()) => reply.ok(),
            Err(error) => {
                let text = format!("ERR error saving the cluster node config: {error}");
                let error = CommandError::text(text);
                crate::command::dispatch::answer_error(&error, &mut reply, &mut self.state);
            }
        }
        Some(reply.into_bytes())
    }
}

/// A client that waits for the cluster's file, and the version that it waits for.
pub type AwaitSaved = (ConnId, u64);
