//! Tables of text: first column to the left, numbers to the right.

use std::io::{self, Write};

/// Rows of cells under a head.
#[derive(Clone, Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with this head.
    pub fn new<S: AsRef<str>>(head: &[S]) -> Self {
        Self { rows: vec![head.iter().map(|cell| cell.as_ref().to_owned()).collect()] }
    }

    /// Adds a row.
    pub fn push(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The table as text.
    pub fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width_of = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width_of).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = widths[column];
                match column {
                    0 => line.push_str(&format!("{cell:<width$}")),
                    _ => line.push_str(&format!("  {cell:>width$}")),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// Prints it. A closed pipe is the reader's choice, not an error.
    pub fn print(&self) {
        say(&self.text());
    }
}

/// Prints a line to standard output, which belongs to results.
pub fn say(text: &str) {
    let mut out = io::stdout().lock();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let _ = write!(out, "{text}{end}").and_then(|()| out.flush());
}

/// Prints a line to standard error, which belongs to progress.
pub fn progress(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// A number with one or two decimals, by size, or a dash for none.
pub fn cell(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value.abs() < 10.0 => format!("{value:.2}"),
        Some(value) if value.abs() < 1000.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["row", "a", "bb"]);
        table.push(vec!["x".into(), "100".into(), cell(Some(1.5))]);
        table.push(vec!["long".into(), cell(None)]);
        assert_eq!(table.text(), "row     a    bb\nx     100  1.50\nlong    -\n");
    }
}
