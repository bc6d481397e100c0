//! Dated records of results, with what is needed to judge and repeat them.
//!
//! A record is written once and never edited; losses are kept like gains.

use std::fs;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;

use crate::machine::{self, Machine};
use crate::peer::Running;
use crate::{Error, Result, clock};

/// A server of a measurement.
#[derive(Clone, Debug, Serialize)]
pub struct ServerNote {
    /// Its label.
    pub label: String,
    /// Its command line.
    pub command: String,
    /// What it calls itself.
    pub version: String,
}

impl From<&Running> for ServerNote {
    fn from(server: &Running) -> Self {
        Self {
            label: server.label.clone(),
            command: server.command.clone(),
            version: server.version.clone(),
        }
    }
}

/// Everything that a record says.
#[derive(Debug, Serialize)]
pub struct Record {
    /// Name of the measurement.
    pub what: String,
    /// When it ended, UTC.
    pub date: String,
    /// The commit of the tree it was made in, `+` at its end if the tree had changes.
    pub commit: String,
    /// The compiler of the programs built here.
    pub compiler: String,
    /// Where it ran.
    pub machine: Machine,
    /// Its parameters.
    pub options: Value,
    /// The servers, in the order given.
    pub servers: Vec<ServerNote>,
    /// What was measured.
    pub results: Value,
}

impl Record {
    /// A record of what was just measured.
    pub fn new(what: &str, options: Value, servers: Vec<ServerNote>, results: Value) -> Self {
        Self {
            what: what.to_owned(),
            date: today().format("%Y-%m-%dT%H:%M:%SZ").to_string(),
            commit: commit(),
            compiler: machine::first_line_of("rustc", &["--version"]),
            machine: machine::machine(),
            options,
            servers,
            results,
        }
    }

    /// Writes it to `<folder>/<date>-<what>.json`; a second one of a day gets a number.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn write(&self, folder: &Path) -> Result<PathBuf> {
        fs::create_dir_all(folder).map_err(Error::io(format!("make {}", folder.display())))?;
        let mut path = folder.join(format!("{}-{}.json", &self.date[..10], self.what));
        let mut number = 2;
        while path.exists() {
            path = folder.join(format!("{}-{}-{number}.json", &self.date[..10], self.what));
            number += 1;
        }
        let mut text = serde_json::to_string_pretty(self)
            .map_err(|error| Error::Input(format!("a record that is no JSON: {error}")))?;
        text.push('\n');
        fs::write(&path, text).map_err(Error::io(format!("write {}", path.display())))?;
        Ok(path)
    }
}

fn today() -> DateTime<Utc> {
    let ms = i64::try_from(clock::unix_ms()).unwrap_or(i64::MAX);
    DateTime::from_timestamp_millis(ms).unwrap_or_default()
}

fn commit() -> String {
    let head = machine::first_line_of("git", &["rev-parse", "--short=12", "HEAD"]);
    let changed = !machine::first_line_of("git", &["status", "--porcelain", "-uno"]).is_empty();
    if changed { head + "+" } else { head }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_a_day_do_not_overwrite_each_other() {
        let folder = std::env::temp_dir().join(format!("osmia-records-{}", std::process::id()));
        let record = Record::new("probe", Value::Null, Vec::new(), serde_json::json!([1, 2]));
        let first = record.write(&folder).expect("a record");
        let second = record.write(&folder).expect("another");
        assert_ne!(first, second);
        let text = fs::read_to_string(first).expect("the record");
        let value: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["results"][1], 2);
        assert!(value["date"].as_str().is_some_and(|date| date.starts_with("20")));
        fs::remove_dir_all(folder).expect("the folder");
    }
}
