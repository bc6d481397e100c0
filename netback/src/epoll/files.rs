//! File operations of the epoll backend: helper threads do them, since files block.
//!
//! One thread syncs and one does the rest, so that a slow medium does not hold up writes. They
//! start with the first operation that needs them and end with the backend, which waits for what
//! has been submitted.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::disk::{self, Job, OpenFiles, Yield};
use crate::file::{FileOp, FileResult, FileToken};

/// Files and the threads that work on them.
pub(super) struct Files {
    open: OpenFiles,
    finished: Arc<Finished>,
    syncs: Option<Lane>,
    others: Option<Lane>,
    /// Results that were there at once.
    ready: VecDeque<(FileToken, FileResult)>,
}

/// Where the threads leave results.
struct Finished {
    results: Mutex<VecDeque<(FileToken, io::Result<Yield>)>>,
    waker: Arc<mio::Waker>,
}

struct Lane {
    jobs: Option<Sender<(FileToken, Job)>>,
    thread: Option<JoinHandle<()>>,
}

impl Files {
    pub(super) fn new(waker: Arc<mio::Waker>) -> Self {
        let finished = Finished { results: Mutex::default(), waker };
        Self {
            open: OpenFiles::default(),
            finished: Arc::new(finished),
            syncs: None,
            others: None,
            ready: VecDeque::new(),
        }
    }

    pub(super) fn submit(&mut self, token: FileToken, op: FileOp) {
        let job = match disk::prepare(&mut self.open, op) {
            Ok(job) => job,
            Err(result) => {
                self.ready.push_back((token, result));
                return;
            }
        };
        let place = if job.is_sync() { &mut self.syncs } else { &mut self.others };
        let lane = match place {
            Some(lane) => Ok(lane),
            None => Lane::start(&self.finished).map(|lane| place.insert(lane)),
        };
        match lane {
            Ok(lane) => lane.submit(token, job),
            Err(error) => self.ready.push_back((token, Err(error))),
        }
    }

    /// Whether a result is there.
    pub(super) fn has_results(&self) -> bool {
        !self.ready.is_empty() || (self.is_used() && !self.finished.lock().is_empty())
    }

    /// The next result.
    pub(super) fn next(&mut self) -> Option<(FileToken, FileResult)> {
        if let Some(result) = self.ready.pop_front() {
            return Some(result);
        }
        if !self.is_used() {
            return None;
        }
        let (token, result) = self.finished.lock().pop_front()?;
        let result = result.and_then(|result| match result {
            Yield::Opened(file) => self.open.add(file),
            Yield::Output(output) => Ok(output),
        });
        Some((token, result))
    }

    /// Whether there may be threads that leave results.
    fn is_used(&self) -> bool {
        self.syncs.is_some() || self.others.is_some()
    }
}

impl Finished {
    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<(FileToken, io::Result<Yield>)>> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, token: FileToken, result: io::Result<Yield>) {
        let first = {
            let mut results = self.lock();
            results.push_back((token, result));
            results.len() == 1
        };
        // Those after the first are found with it.
        if first {
            let _ = self.waker.wake();
        }
    }
}

impl Lane {
    fn start(finished: &Arc<Finished>) -> io::Result<Self> {
        let (jobs, receiver) = mpsc::channel();
        let finished = Arc::clone(finished);
        let thread = std::thread::Builder::new()
            .name("files".to_owned())
            .spawn(move || work(&receiver, &finished))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    fn submit(&self, token: FileToken, job: Job) {
        let jobs = self.jobs.as_ref().expect("the lane is open until it is dropped");
        jobs.send((token, job)).expect("the thread takes jobs until the lane is dropped");
    }
}

fn work(jobs: &Receiver<(FileToken, Job)>, finished: &Finished) {
    while let Ok((token, job)) = jobs.recv() {
        finished.push(token, job.run());
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic over there has been told already.
            let _ = thread.join();
        }
    }
}
