//! Tables and means over the cells of `rows`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Cell, Visits};
use crate::numbers::geometric_mean;
use crate::table::{Table, cell};

/// Geometric means over the rows of cells that have the same depth, clients and value length.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Requests that a connection sends at once.
    pub pipeline: usize,
    /// Connections.
    pub clients: usize,
    /// Length of `__value__`.
    pub value_len: usize,
    /// The server that is compared with the first one.
    pub label: String,
    /// Rows that both answer.
    pub rows: usize,
    /// Its CPU time over the first server's.
    pub cpu_ratio: Option<f64>,
    /// The first server's requests a second over its own.
    pub rate_ratio: Option<f64>,
}

impl Summary {
    /// The means of all groups of cells, for every server but the first.
    pub fn of(cells: &[Cell]) -> Vec<Self> {
        let mut groups: BTreeMap<_, Vec<&Cell>> = BTreeMap::new();
        for cell in cells {
            groups.entry((cell.value_len, cell.clients, cell.pipeline)).or_default().push(cell);
        }
        let mut summaries = Vec::new();
        for ((value_len, clients, pipeline), cells) in groups {
            let count = cells.first().map_or(0, |cell| cell.servers.len());
            for index in 1..count {
                let visits: Vec<&Visits> = cells.iter().map(|cell| &cell.servers[index]).collect();
                let mean = |of: fn(&Visits) -> Option<f64>| {
                    let ratios: Vec<f64> = visits.iter().filter_map(|visits| of(visits)).collect();
                    geometric_mean(&ratios)
                };
                summaries.push(Self {
                    pipeline,
                    clients,
                    value_len,
                    label: visits[0].label.clone(),
                    rows: visits.iter().filter(|visits| visits.cpu_ratio.is_some()).count(),
                    cpu_ratio: mean(|visits| visits.cpu_ratio),
                    rate_ratio: mean(|visits| visits.rate_ratio),
                });
            }
        }
        summaries
    }
}

/// The cells as text, followed by the means.
pub fn table(cells: &[Cell]) -> String {
    let mut table = Table::new(&[
        "row",
        "pipeline",
        "clients",
        "value",
        "server",
        "requests/s",
        "CPU ns",
        "x CPU",
        "x requests",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "client ns",
        "note",
    ]);
    for measured in cells {
        for visits in &measured.servers {
            let mut line = vec![
                measured.row.clone(),
                measured.pipeline.to_string(),
                measured.clients.to_string(),
                measured.value_len.to_string(),
                visits.label.clone(),
            ];
            match (&visits.error, visits.median) {
                (Some(error), _) => {
                    line.extend(std::iter::repeat_n("-".to_owned(), 8));
                    line.push(format!("error: {}", brief(error)));
                }
                (None, None) => line.push("-".to_owned()),
                (None, Some(median)) => line.extend([
                    format!("{:.0}", median.requests_per_s),
                    format!("{:.0}", median.server_cpu_ns),
                    cell(visits.cpu_ratio),
                    cell(visits.rate_ratio),
                    cell(Some(median.p50_us)),
                    cell(Some(median.p99_us)),
                    cell(median.p99_9_us),
                    format!("{:.0}", median.client_cpu_ns),
                ]),
            }
            table.push(line);
        }
    }
    let mut means = Table::new(&[
        "geometric mean",
        "pipeline",
        "clients",
        "value",
        "rows",
        "x CPU",
        "x requests",
    ]);
    for summary in Summary::of(cells) {
        means.push(vec![
            summary.label,
            summary.pipeline.to_string(),
            summary.clients.to_string(),
            summary.value_len.to_string(),
            summary.rows.to_string(),
            cell(summary.cpu_ratio),
            cell(summary.rate_ratio),
        ]);
    }
    format!("{}\n{}", table.text(), means.text())
}

fn brief(error: &str) -> String {
    error.chars().take(40).collect()
}
