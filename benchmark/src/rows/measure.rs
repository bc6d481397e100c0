//! Set-up, visits and medians of `rows`.

use std::time::Duration;

use super::{Cell, Generator, Options, Row, Sample, Visits, redis_benchmark};
use crate::load::{self, Load, Outcome, Stop};
use crate::numbers::{Random, median};
use crate::peer::Running;
use crate::template::{self, Batch, Keys};
use crate::wire::{self, Reply};
use crate::{Error, Result, client::Client, floor, machine, table};

/// Pause around a visit: the scheduler brings the CPU time of a thread up to date when it sleeps.
pub(crate) const SETTLE: Duration = Duration::from_millis(10);

/// Connections and depth with which keys are made.
const FILL_CLIENTS: usize = 4;
const FILL_PIPELINE: usize = 64;

/// Measures all cells on all servers. The first one must not be a floor.
///
/// # Errors
/// A server dies, or breaks the protocol.
pub fn run(servers: &[Running], options: &Options) -> Result<Vec<Cell>> {
    if servers.first().is_none_or(|server| floor::is_floor(&server.label)) {
        return Err(Error::Input("give at least one server".to_owned()));
    }
    let mut cells = Vec::new();
    for &value_len in &options.value_lens {
        for &clients in &options.clients {
            for &pipeline in &options.pipelines {
                for row in &options.rows {
                    let shape = Shape { row, pipeline, clients, value_len };
                    if let Some(command) = shape.command(options) {
                        cells.push(measure_cell(servers, options, &shape, &command)?);
                    }
                }
            }
        }
    }
    Ok(cells)
}

/// What makes a cell.
struct Shape<'a> {
    row: &'a Row,
    pipeline: usize,
    clients: usize,
    value_len: usize,
}

impl Shape<'_> {
    /// The words of the command; `None` if the row does not run over many keys and shall.
    fn command(&self, options: &Options) -> Option<Vec<String>> {
        let command = match (options.keys, &self.row.random) {
            (None, _) => &self.row.command,
            (Some(_), random) => &random.as_ref()?.command,
        };
        Some(template::words(command, self.value_len))
    }
}

fn measure_cell(
    servers: &[Running],
    options: &Options,
    shape: &Shape<'_>,
    command: &[String],
) -> Result<Cell> {
    let mut results: Vec<Visits> = servers.iter().map(|server| empty(&server.label)).collect();
    let mut reply: Option<Vec<u8>> = None;
    for round in 0..options.rounds {
        table::progress(&format!(
            "{} pipeline {} clients {} value {} round {}",
            shape.row.row,
            shape.pipeline,
            shape.clients,
            shape.value_len,
            round + 1
        ));
        let mut order: Vec<usize> = (0..servers.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        if round == 0 {
            // Floors repeat the reply of a real server, so they are set up after those.
            order.sort_by_key(|&index| floor::is_floor(&servers[index].label));
        }
        for index in order {
            let server = &servers[index];
            let visits = &mut results[index];
            if visits.error.is_some() {
                continue;
            }
            let visit = Visit { server, options, shape, command, round };
            match visit.prepare(&mut reply)? {
                Some(error) => visits.mark(error),
                None => match visit.measure()? {
                    Ok(sample) => visits.rounds.push(sample),
                    Err(error) => visits.mark(error),
                },
            }
        }
    }
    summarize(&mut results);
    Ok(Cell {
        row: shape.row.row.clone(),
        pipeline: shape.pipeline,
        clients: shape.clients,
        value_len: shape.value_len,
        servers: results,
    })
}

fn empty(label: &str) -> Visits {
    let label = label.to_owned();
    Visits { label, error: None, median: None, cpu_ratio: None, rate_ratio: None, rounds: vec![] }
}

impl Visits {
    fn mark(&mut self, error: String) {
        self.error = Some(error);
        self.rounds.clear();
    }
}

/// One server in one round of a cell.
struct Visit<'a> {
    server: &'a Running,
    options: &'a Options,
    shape: &'a Shape<'a>,
    command: &'a [String],
    round: usize,
}

impl Visit<'_> {
    /// Sets the server up; the text of an error that it answered with, if any.
    fn prepare(&self, reply: &mut Option<Vec<u8>>) -> Result<Option<String>> {
        let mut client = self.server.client()?;
        if floor::is_floor(&self.server.label) {
            let Some(reply) = reply else { return Ok(Some("no server has a reply".to_owned())) };
            let request_len = Batch::new(self.command, 1).request_len();
            floor::configure(&mut client, request_len, reply)?;
            return Ok(None);
        }
        let error = match self.options.keys {
            // Filled once: the keys stay.
            Some(_) if self.round > 0 => None,
            Some(keys) => self.fill(&mut client, keys)?,
            None => self.set_up(&mut client)?,
        };
        if error.is_some() {
            return Ok(error);
        }
        let raw = client.call_raw(&template::with_key(self.command, 0))?;
        if let Some(error) = error_in(&raw) {
            return Ok(Some(error));
        }
        reply.get_or_insert(raw);
        Ok(None)
    }

    fn set_up(&self, client: &mut Client) -> Result<Option<String>> {
        let lines = std::iter::once("FLUSHALL").chain(self.shape.row.setup.iter().map(|s| &**s));
        for line in lines {
            let raw = client.call_raw(&template::words(line, self.shape.value_len))?;
            if let Some(error) = error_in(&raw) {
                return Ok(Some(format!("{}: {error}", first_word(line))));
            }
        }
        Ok(None)
    }

    fn fill(&self, client: &mut Client, keys: u64) -> Result<Option<String>> {
        if let Reply::Error(error) = client.call(&["FLUSHALL"])? {
            return Ok(Some(error));
        }
        let Some(random) = &self.shape.row.random else { return Ok(None) };
        let words = template::words(&random.fill, self.shape.value_len);
        let load = Load {
            batch: Batch::new(&words, FILL_PIPELINE),
            keys: Keys::InTurn(0, keys),
            clients: FILL_CLIENTS,
            stop: Stop::Requests(keys),
            bystander: None,
        };
        Ok(load::run(&self.server.label, self.server.address, &load)?.first_error)
    }

    /// Warms up and measures; `Err` is the text of an error reply.
    fn measure(&self) -> Result<std::result::Result<Sample, String>> {
        let warm_up = match self.options.stop {
            Stop::Requests(count) => Stop::Requests(count / 10),
            Stop::After(time) => Stop::After(time / 10),
        };
        if let Some(error) = self.load(warm_up)?.first_error {
            return Ok(Err(error));
        }
        std::thread::sleep(SETTLE);
        let own = std::process::id();
        let before = (machine::cpu_ns(self.server.pid), machine::cpu_ns(own));
        let sample = match self.options.generator {
            Generator::Own => self.load(self.options.stop)?.sample(),
            Generator::RedisBenchmark => redis_benchmark::run(&redis_benchmark::Job {
                address: self.server.address,
                command: self.command,
                keys: self.options.keys,
                pipeline: self.shape.pipeline,
                clients: self.shape.clients,
                stop: self.options.stop,
            })?,
        };
        let (mut sample, requests) = match sample {
            Ok(measured) => measured,
            Err(error) => return Ok(Err(error)),
        };
        std::thread::sleep(SETTLE);
        let per_request = |before: &_, pid| {
            machine::cpu_ns_between(before, &machine::cpu_ns(pid)) as f64 / requests.max(1.0)
        };
        sample.server_cpu_ns = per_request(&before.0, self.server.pid);
        if self.options.generator == Generator::Own {
            sample.client_cpu_ns = per_request(&before.1, own);
        }
        Ok(Ok(sample))
    }

    fn load(&self, stop: Stop) -> Result<Outcome> {
        let keys = match self.options.keys {
            // Each round has other random numbers, but all servers the same.
            Some(limit) => Keys::Random(limit, Random::new(self.round as u64 + 1)),
            None => Keys::One,
        };
        let load = Load {
            batch: Batch::new(self.command, self.shape.pipeline),
            keys,
            clients: self.shape.clients,
            stop,
            bystander: None,
        };
        load::run(&self.server.label, self.server.address, &load)
    }
}

impl Outcome {
    /// The figures of a visit and the number of requests; `Err` is the text of an error reply.
    pub(crate) fn sample(&self) -> std::result::Result<(Sample, f64), String> {
        if let Some(error) = &self.first_error {
            return Err(format!("{error} ({} of {} replies)", self.errors, self.replies));
        }
        let us = |quantile| self.latency.value_at_quantile(quantile) as f64 / 1000.0;
        let sample = Sample {
            requests_per_s: self.rate(),
            server_cpu_ns: 0.0,
            client_cpu_ns: 0.0,
            p50_us: us(0.5),
            p99_us: us(0.99),
            p99_9_us: Some(us(0.999)),
        };
        Ok((sample, self.replies as f64))
    }
}

/// The text of a reply that is an error or has one inside.
fn error_in(raw: &[u8]) -> Option<String> {
    match wire::measure(raw) {
        wire::Measured::Whole { is_error: true, .. } => {
            Some(String::from_utf8_lossy(raw).trim().trim_start_matches('-').to_owned())
        }
        _ => None,
    }
}

fn first_word(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

fn summarize(results: &mut [Visits]) {
    let Some((first, _)) = results.split_first() else { return };
    let first = first.rounds.clone();
    for visits in results {
        visits.median = medians(&visits.rounds);
        let ratio = |of: fn(&Sample, &Sample) -> f64| {
            let pairs = first.iter().zip(&visits.rounds);
            median(&pairs.map(|(first, other)| of(first, other)).collect::<Vec<_>>())
        };
        visits.cpu_ratio = ratio(|first, other| other.server_cpu_ns / first.server_cpu_ns.max(1.0));
        visits.rate_ratio =
            ratio(|first, other| first.requests_per_s / other.requests_per_s.max(1e-9));
    }
}

/// The medians over the rounds; `None` without a round.
pub(crate) fn medians(rounds: &[Sample]) -> Option<Sample> {
    let of = |field: fn(&Sample) -> f64| median(&rounds.iter().map(field).collect::<Vec<_>>());
    let tail: Vec<f64> = rounds.iter().filter_map(|sample| sample.p99_9_us).collect();
    Some(Sample {
        requests_per_s: of(|sample| sample.requests_per_s)?,
        server_cpu_ns: of(|sample| sample.server_cpu_ns)?,
        client_cpu_ns: of(|sample| sample.client_cpu_ns)?,
        p50_us: of(|sample| sample.p50_us)?,
        p99_us: of(|sample| sample.p99_us)?,
        p99_9_us: median(&tail),
    })
}
