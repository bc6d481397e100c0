//! The table of `shards`.

use super::{Cell, Ratio};
use crate::table::{Table, cell};

/// The cells as text.
pub fn table(cells: &[Cell]) -> String {
    let alone = cells.iter().find(|cell| cell.arrangement == super::Arrangement::Alone);
    let alone = alone.map_or("alone", |cell| &cell.label);
    let mut table = Table::new(&[
        "row",
        "server",
        "shards",
        "requests/s",
        "CPU ns",
        "rate / 1 shard",
        "CPU / 1 shard",
        &format!("rate / {alone}"),
        &format!("CPU / {alone}"),
        "p50 us",
        "p99 us",
        "client ns",
        "note",
    ]);
    for measured in cells {
        let mut line =
            vec![measured.row.clone(), measured.label.clone(), measured.shards.to_string()];
        match (&measured.error, measured.median) {
            (None, Some(median)) => {
                line.push(format!("{:.0}", median.requests_per_s));
                line.push(format!("{:.0}", median.server_cpu_ns));
                line.extend(pair(measured.to_one_shard));
                line.extend(pair(measured.to_alone));
                line.push(cell(Some(median.p50_us)));
                line.push(cell(Some(median.p99_us)));
                line.push(format!("{:.0}", median.client_cpu_ns));
            }
            (error, _) => {
                line.extend(std::iter::repeat_n("-".to_owned(), 9));
                let text = error.as_deref().unwrap_or("not measured");
                line.push(format!("error: {}", text.chars().take(60).collect::<String>()));
            }
        }
        table.push(line);
    }
    table.text()
}

fn pair(ratio: Option<Ratio>) -> [String; 2] {
    [cell(ratio.and_then(|ratio| ratio.rate)), cell(ratio.and_then(|ratio| ratio.cpu))]
}
