//! `density`: memory per item, by the server's own count and by the kernel's.
//!
//! Each structure is loaded into a fresh process of each server. What grows between the empty
//! server and the settled loaded one, divided by the number of items, is the figure. Before the
//! first look the server takes a few items and drops them again, so that memory that comes once,
//! with the first command, is not charged to the items.

pub mod structures;

use std::time::Duration;

use serde::Serialize;

use crate::client::Client;
use crate::numbers::geometric_mean;
use crate::peer::{Cores, Peer, Running};
use crate::record::ServerNote;
use crate::table::{self, Table, cell};
use crate::{Error, Result, clock};
use structures::{Filling, KEY_SHAPE, Structure, VALUE_LEN};

/// Items that are made and dropped before the first look.
const WARM_UP_COUNT: usize = 100;

/// Pause between looks at a server that may still be at work (Redis goes on rehashing).
const SETTLE_PAUSE: Duration = Duration::from_millis(100);
/// Equal looks after which it counts as settled.
const SETTLE_LOOKS: usize = 4;
/// Longest wait for that.
const SETTLE_MAX: Duration = Duration::from_secs(20);

/// What to weigh.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names of structures (parts of them suffice); all if empty.
    pub names: Vec<String>,
    /// Items of each structure; `None` takes the structure's own number.
    pub count: Option<usize>,
    /// Factor on the structure's own number.
    pub scale: usize,
    /// Keys and values.
    pub filling: Filling,
    /// Where servers and client run.
    pub cores: Option<Cores>,
}

impl Options {
    /// Whether the budgets, which are for one shape of data, apply.
    fn has_budgets(&self) -> bool {
        let filling = &self.filling;
        let is_default = filling.key_shape == KEY_SHAPE && filling.value_len == VALUE_LEN;
        self.count.is_none() && self.scale == 1 && is_default
    }
}

/// What a structure weighs in a server.
#[derive(Clone, Debug, Serialize)]
pub struct Weight {
    /// The server.
    pub label: String,
    /// The error that it answered with; nothing else is known then.
    pub error: Option<String>,
    /// Growth of `used_memory` per item, in bytes.
    pub used: Option<f64>,
    /// Growth of resident memory per item, in bytes.
    pub rss: Option<f64>,
    /// The first server's `used` over its own: below 1 where the first server needs less.
    pub ratio: Option<f64>,
}

/// A structure in all servers.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The structure's name.
    pub structure: String,
    /// Items.
    pub count: usize,
    /// Bytes per item that the first server may take, where a budget applies.
    pub budget: Option<f64>,
    /// Whether it keeps the budget.
    pub is_within_budget: Option<bool>,
    /// The servers, in the order given.
    pub servers: Vec<Weight>,
}

/// All that was weighed.
#[derive(Clone, Debug, Serialize)]
pub struct Density {
    /// The structures.
    pub lines: Vec<Line>,
    /// Geometric mean of the ratios to each server but the first, with its label.
    pub means: Vec<(String, Option<f64>)>,
}

/// Weighs the structures in all servers.
///
/// # Errors
/// A server does not start, dies, or has no `used_memory` in its INFO.
pub fn run(peers: &[Peer], options: &Options) -> Result<(Density, Vec<ServerNote>)> {
    let mut notes = Vec::new();
    let start = |peer: &Peer| peer.start(options.cores);
    let density = run_with(peers, options, &mut |peer| {
        let server = start(peer)?;
        if notes.len() < peers.len() {
            notes.push(ServerNote::from(&server));
        }
        Ok(server)
    })?;
    Ok((density, notes))
}

/// As [`run`], with servers started by the caller.
///
/// # Errors
/// As [`run`].
pub fn run_with<P>(
    peers: &[P],
    options: &Options,
    start: &mut dyn FnMut(&P) -> Result<Running>,
) -> Result<Density> {
    let mut lines = Vec::new();
    for structure in structures::STRUCTURES.iter().filter(|structure| {
        options.names.is_empty() || options.names.iter().any(|name| structure.name.contains(name))
    }) {
        let count = options.count.unwrap_or(structure.count * options.scale);
        table::progress(&format!("{} x {count}", structure.name));
        let mut servers = Vec::new();
        for peer in peers {
            servers.push(weigh(&start(peer)?, structure, count, &options.filling)?);
        }
        lines.push(line(structure, count, servers, options.has_budgets()));
    }
    let labels = lines.first().map_or(Vec::new(), |line| {
        line.servers.iter().skip(1).map(|weight| weight.label.clone()).collect()
    });
    let mean = |(index, label): (usize, String)| {
        let ratios = lines.iter().filter_map(|line: &Line| line.servers.get(index + 1)?.ratio);
        (label, geometric_mean(&ratios.collect::<Vec<_>>()))
    };
    let means = labels.into_iter().enumerate().map(mean).collect();
    Ok(Density { lines, means })
}

fn line(structure: &Structure, count: usize, mut servers: Vec<Weight>, budgets: bool) -> Line {
    let first = servers.first().and_then(|weight| weight.used);
    for weight in &mut servers {
        weight.ratio = first.zip(weight.used).map(|(first, used)| first / used);
    }
    let budget = budgets.then_some(structure.budget);
    Line {
        structure: structure.name.to_owned(),
        count,
        budget,
        is_within_budget: first.zip(budget).map(|(used, budget)| used <= budget),
        servers,
    }
}

fn weigh(
    server: &Running,
    structure: &Structure,
    count: usize,
    filling: &Filling,
) -> Result<Weight> {
    let label = server.label.clone();
    let mut weight = Weight { label, error: None, used: None, rss: None, ratio: None };
    let mut observer = server.client()?;
    weight.error = load(server, structure, count..count + WARM_UP_COUNT, filling)?;
    if weight.error.is_some() {
        return Ok(weight);
    }
    observer.call(&["FLUSHALL"])?;
    let before = settled_used(server, &mut observer)?;
    let rss_before = server.rss_bytes()?;
    weight.error = load(server, structure, 0..count, filling)?;
    if weight.error.is_some() {
        return Ok(weight);
    }
    let used = settled_used(server, &mut observer)? - before;
    let rss = server.rss_bytes()? as f64 - rss_before as f64;
    weight.used = Some(used / count as f64);
    weight.rss = Some(rss / count as f64);
    Ok(weight)
}

/// Makes items; the text of the first error reply, if any.
fn load(
    server: &Running,
    structure: &Structure,
    items: std::ops::Range<usize>,
    filling: &Filling,
) -> Result<Option<String>> {
    let mut client = server.client()?;
    let mut pipeline = client.pipeline();
    for item in items {
        pipeline.push(&structure.words(filling, item))?;
    }
    Ok(pipeline.finish()?.first_error)
}

/// `used_memory` once it has stopped moving.
pub(crate) fn settled_used(server: &Running, observer: &mut Client) -> Result<f64> {
    let deadline = clock::now() + SETTLE_MAX;
    let mut last = f64::NAN;
    let mut looks = 0;
    loop {
        let used = observer
            .info("memory", "used_memory")?
            .ok_or_else(|| Error::server(&server.label, "INFO memory has no used_memory"))?;
        // A connection's buffer may come and go.
        looks = if (used - last).abs() <= 64.0 { looks + 1 } else { 1 };
        if looks >= SETTLE_LOOKS || clock::now() > deadline {
            return Ok(used);
        }
        last = used;
        std::thread::sleep(SETTLE_PAUSE);
    }
}

impl Density {
    /// The result as text.
    pub fn table(&self) -> String {
        let Some(first) = self.lines.first() else { return String::new() };
        let labels: Vec<&str> = first.servers.iter().map(|weight| &*weight.label).collect();
        let mut head = vec!["bytes per item".to_owned(), "count".to_owned()];
        for label in &labels {
            head.extend([(*label).to_owned(), format!("{label} RSS")]);
        }
        head.extend(["RSS/used", "budget", ""].map(str::to_owned));
        head.extend(labels.iter().skip(1).map(|label| format!("/{label}")));
        let mut table = Table::new(&head);
        for line in &self.lines {
            table.push(line.cells());
        }
        let mut text = table.text();
        for (label, mean) in &self.means {
            text.push_str(&format!(
                "geometric mean of {} / {label}: {}\n",
                labels[0],
                mean.map_or("-".to_owned(), |mean| format!("{mean:.3}"))
            ));
        }
        for line in &self.lines {
            for weight in &line.servers {
                if let Some(error) = &weight.error {
                    text.push_str(&format!("{}: {}: {error}\n", line.structure, weight.label));
                }
            }
        }
        text
    }
}

impl Line {
    fn cells(&self) -> Vec<String> {
        let mut cells = vec![self.structure.clone(), self.count.to_string()];
        for weight in &self.servers {
            match weight.error {
                Some(_) => cells.extend(["unsupported".to_owned(), "-".to_owned()]),
                None => cells.extend([cell(weight.used), cell(weight.rss)]),
            }
        }
        let first = self.servers.first();
        cells.push(cell(first.and_then(|first| Some(first.rss? / first.used?))));
        cells.push(cell(self.budget));
        cells.push(match self.is_within_budget {
            Some(true) => "kept".to_owned(),
            Some(false) => "MISSED".to_owned(),
            None => "-".to_owned(),
        });
        cells.extend(self.servers.iter().skip(1).map(|weight| cell(weight.ratio)));
        cells
    }
}
