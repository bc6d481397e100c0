//! Rounds, visits and ratios of `shards`.

use std::panic::resume_unwind;

use super::route::{self, MEMBERS, Routes};
use super::{Cell, Fleet, MANY, Numbers, Options, Ratio, Row, Setup};
use crate::client::Client;
use crate::load::{Generator, Lane, Load, Outcome, Stop, histogram};
use crate::numbers::{Random, median};
use crate::record::ServerNote;
use crate::rows::{SETTLE, Sample, medians};
use crate::template::{self, Batch, Keys, Tagged};
use crate::wire::Reply;
use crate::{Error, Result, machine, table};

/// Measures all rows on all setups, each of which `start` starts once a round. Also what the
/// servers say of themselves.
///
/// # Errors
/// There are fewer connections or keys than nodes, or the kernel refuses something.
pub fn run(
    setups: &[Setup],
    options: &Options,
    start: &mut impl FnMut(&Setup) -> Result<Fleet>,
) -> Result<(Vec<Cell>, Vec<ServerNote>)> {
    let nodes_max = setups.iter().map(Setup::nodes).max().unwrap_or(0);
    if setups.iter().any(|setup| setup.shards == 0) || options.connections < nodes_max {
        let text = format!("give a connection to each of {nodes_max} nodes, and shards");
        return Err(Error::Input(text));
    }
    Routes::new(options.keys, nodes_max.max(1))?;
    let mut visits: Vec<Visits> = setups.iter().map(|setup| Visits::new(setup, options)).collect();
    for round in 0..options.rounds {
        let mut order: Vec<usize> = (0..setups.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let (setup, visits) = (&setups[index], &mut visits[index]);
            if visits.cells.iter().all(|cell| cell.error.is_some()) {
                continue;
            }
            table::progress(&format!("round {} {} {}", round + 1, setup.label, setup.shards));
            let visited = start(setup).and_then(|fleet| {
                visits.note(setup, &fleet);
                let routes = Routes::new(options.keys, setup.nodes())?;
                Visit { setup, options, fleet, routes, round }.run(&mut visits.cells)
            });
            if let Err(error) = visited {
                visits.cells.iter_mut().for_each(|cell| cell.mark(error.to_string()));
            }
        }
    }
    let (cells, notes): (Vec<_>, Vec<_>) =
        visits.into_iter().map(|visits| (visits.cells, visits.note)).unzip();
    Ok((summarize(cells), notes))
}

/// A setup over all rounds.
struct Visits {
    /// By row.
    cells: Vec<Cell>,
    note: ServerNote,
}

impl Visits {
    fn new(setup: &Setup, options: &Options) -> Self {
        let cell = |row: &Row| Cell {
            row: row.name.to_owned(),
            label: setup.label.clone(),
            arrangement: setup.arrangement,
            shards: setup.shards,
            error: None,
            median: None,
            to_one_shard: None,
            to_alone: None,
            rounds: Vec::new(),
        };
        let note = ServerNote {
            label: format!("{} {}", setup.label, setup.shards),
            command: setup.peer.display(),
            version: String::new(),
        };
        Self { cells: options.rows.iter().map(cell).collect(), note }
    }

    fn note(&mut self, setup: &Setup, fleet: &Fleet) {
        let first = fleet.processes.first();
        self.note.version = first.map(|process| process.version.clone()).unwrap_or_default();
        debug_assert_eq!(fleet.addresses.len(), setup.nodes());
    }
}

impl Cell {
    fn mark(&mut self, error: String) {
        self.error.get_or_insert(error);
        self.rounds.clear();
    }
}

/// A setup in one round.
struct Visit<'a> {
    setup: &'a Setup,
    options: &'a Options,
    fleet: Fleet,
    routes: Routes,
    round: usize,
}

impl Visit<'_> {
    fn run(&self, cells: &mut [Cell]) -> Result<()> {
        self.fill()?;
        for (row, cell) in self.options.rows.iter().zip(cells) {
            if cell.error.is_some() {
                continue;
            }
            match self.measure(row) {
                Ok(Ok(sample)) => cell.rounds.push(sample),
                Ok(Err(error)) => cell.mark(error),
                // The process is this round's only: the others go on.
                Err(error) => cell.mark(error.to_string()),
            }
        }
        Ok(())
    }

    /// Makes the keys and looks whether they are there.
    fn fill(&self) -> Result<()> {
        let value = template::value(self.options.value_len);
        let mut held = 0;
        for (node, address) in self.fleet.addresses.iter().enumerate() {
            let mut client = Client::connect(&self.setup.label, *address)?;
            let mut pipeline = client.pipeline();
            for &number in &*self.routes.keys[node] {
                pipeline.push(&["SET", &route::key(number), &value])?;
            }
            // Keys of a tag do not lie side by side.
            for member in 0..MEMBERS {
                for &tag in &*self.routes.tags[node] {
                    pipeline.push(&["SET", &route::tagged(tag, member), &value])?;
                }
            }
            if let Some(error) = pipeline.finish()?.first_error {
                return Err(Error::server(&self.setup.label, error));
            }
            if let Reply::Integer(count) = client.call(&["DBSIZE"])? {
                held += u64::try_from(count).unwrap_or(0);
            }
        }
        let made = self.routes.keys_count();
        if held != made {
            let text = format!("holds {held} keys after {made} were made");
            return Err(Error::server(&self.setup.label, text));
        }
        Ok(())
    }

    /// Warms up and measures; `Err` inside is the text of an error reply.
    fn measure(&self, row: &Row) -> Result<std::result::Result<Sample, String>> {
        let warm_up = match self.options.stop {
            Stop::Requests(count) => Stop::Requests(count / 10),
            Stop::After(time) => Stop::After(time / 10),
        };
        if let Some(error) = self.load(row, warm_up)?.first_error {
            return Ok(Err(error));
        }
        std::thread::sleep(SETTLE);
        let own = std::process::id();
        let before = (self.server_cpu_ns(), machine::process_cpu_ns(own));
        let outcome = self.load(row, self.options.stop)?;
        std::thread::sleep(SETTLE);
        let after = (self.server_cpu_ns(), machine::process_cpu_ns(own));
        Ok(outcome.sample().map(|(mut sample, requests)| {
            let per_request =
                |before, after: u64| after.saturating_sub(before) as f64 / requests.max(1.0);
            sample.server_cpu_ns = per_request(before.0, after.0);
            sample.client_cpu_ns = per_request(before.1, after.1);
            sample
        }))
    }

    fn server_cpu_ns(&self) -> u64 {
        self.fleet.processes.iter().map(|process| machine::process_cpu_ns(process.pid)).sum()
    }

    /// Runs a load from all threads at once. Connections are dealt to the nodes in turns, over the
    /// borders of threads.
    fn load(&self, row: &Row, stop: Stop) -> Result<Outcome> {
        let words = template::words(&row.line(), self.options.value_len);
        let batch = Batch::new(&words, self.options.pipeline);
        let connections = self.options.connections;
        let threads = self.options.threads.clamp(1, connections);
        let stop = match stop {
            Stop::Requests(count) => Stop::Requests(count.div_ceil(threads as u64)),
            after @ Stop::After(_) => after,
        };
        let mut generators = Vec::new();
        for thread in 0..threads {
            let first = thread * connections / threads;
            let clients = (thread + 1) * connections / threads - first;
            let (batch, keys) = (batch.clone(), Keys::One);
            let load = Load { batch, keys, clients, stop, bystander: None };
            let lanes = self.lanes(row, thread, first);
            generators.push(Generator::connect(&self.setup.label, &lanes, &load)?);
        }
        let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
            let run = |generator: Generator<'_>| generator.run();
            let threads: Vec<_> = generators
                .into_iter()
                .map(|generator| scope.spawn(move || run(generator)))
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| resume_unwind(panic))
            };
            // All of them end before the first error is told.
            let outcomes: Vec<Result<Outcome>> = threads.into_iter().map(join).collect();
            outcomes.into_iter().collect::<Result<_>>()
        })?;
        Ok(together(&outcomes))
    }

    /// The nodes with the numbers that they serve, from the node of a thread's first connection on.
    fn lanes(&self, row: &Row, thread: usize, first: usize) -> Vec<Lane> {
        let has_one_tag = self.setup.arrangement.is_routed() || self.options.one_tag;
        let keys_per_tag = if has_one_tag { MANY } else { 1 };
        let lane = |(node, address): (usize, &_)| {
            // Other numbers in each round, thread and node, but the same in all setups.
            let seed = [self.round, thread, node].iter().fold(1, |seed, part| seed << 16 | part);
            let random = Random::new(seed as u64);
            let keys = match row.numbers {
                Numbers::Keys => Keys::Listed(self.routes.keys[node].clone(), random),
                Numbers::Channels => Keys::Listed(self.routes.channels[node].clone(), random),
                Numbers::Tags => {
                    let tags = self.routes.tags[node].clone();
                    Keys::Tagged(Tagged::new(tags, MEMBERS, keys_per_tag, random))
                }
            };
            Lane { address: *address, keys }
        };
        let mut lanes: Vec<Lane> = self.fleet.addresses.iter().enumerate().map(lane).collect();
        let count = lanes.len();
        lanes.rotate_left(first % count);
        lanes
    }
}

/// What threads that ran at the same time came to.
fn together(outcomes: &[Outcome]) -> Outcome {
    let mut latency = histogram();
    for outcome in outcomes {
        // All have the same bounds.
        let _ = latency.add(&outcome.latency);
    }
    Outcome {
        replies: outcomes.iter().map(|outcome| outcome.replies).sum(),
        errors: outcomes.iter().map(|outcome| outcome.errors).sum(),
        first_error: outcomes.iter().find_map(|outcome| outcome.first_error.clone()),
        elapsed: outcomes.iter().map(|outcome| outcome.elapsed).max().unwrap_or_default(),
        latency,
        bystander: histogram(),
    }
}

/// Medians and ratios, and the cells row by row.
fn summarize(setups: Vec<Vec<Cell>>) -> Vec<Cell> {
    let rows = setups.first().map_or(0, Vec::len);
    let mut cells = Vec::new();
    for row in 0..rows {
        let of_row: Vec<&Cell> = setups.iter().map(|cells| &cells[row]).collect();
        let alone = of_row.iter().find(|cell| cell.arrangement == super::Arrangement::Alone);
        for cell in &of_row {
            let one = of_row.iter().find(|one| one.label == cell.label && one.shards == 1);
            cells.push(Cell {
                median: medians(&cell.rounds),
                to_one_shard: one.and_then(|one| ratio(&cell.rounds, &one.rounds)),
                to_alone: alone.and_then(|alone| ratio(&cell.rounds, &alone.rounds)),
                ..(*cell).clone()
            });
        }
    }
    cells
}

/// The medians of the ratios, round by round; `None` if a side was not measured.
fn ratio(own: &[Sample], others: &[Sample]) -> Option<Ratio> {
    if own.is_empty() || others.is_empty() {
        return None;
    }
    let of = |field: fn(&Sample) -> f64| {
        let pairs = own.iter().zip(others).map(|(own, other)| (field(own), field(other)));
        // A short load may take less than a tick of CPU time.
        let ratios = pairs.filter(|(_, other)| *other > 0.0).map(|(own, other)| own / other);
        median(&ratios.collect::<Vec<_>>())
    };
    Some(Ratio { rate: of(|sample| sample.requests_per_s), cpu: of(|sample| sample.server_cpu_ns) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_medians_over_rounds() {
        let sample = |requests_per_s, server_cpu_ns| Sample {
            requests_per_s,
            server_cpu_ns,
            ..Sample::default()
        };
        let own = [sample(10.0, 4.0), sample(30.0, 4.0), sample(20.0, 4.0)];
        let others = [sample(10.0, 2.0), sample(10.0, 0.0), sample(10.0, 1.0)];
        let ratio = ratio(&own, &others).expect("a ratio");
        assert_eq!(ratio, Ratio { rate: Some(2.0), cpu: Some(3.0) });
        assert_eq!(super::ratio(&own, &[]), None);
    }
}
