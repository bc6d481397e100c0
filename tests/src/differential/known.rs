//! The servers that the tester starts by itself: a Redis at hand, and Osmia.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::differential::server::Recipe;

/// The variable that names the program of a Redis 8.2.
pub const REDIS_VARIABLE: &str = "OSMIA_REDIS";

/// How Redis runs: without persistence, with all of DEBUG.
const REDIS_ARGUMENTS: [&str; 16] = [
    "--port",
    "{port}",
    "--bind",
    "127.0.0.1",
    "--save",
    "",
    "--appendonly",
    "no",
    "--daemonize",
    "no",
    "--dir",
    "{folder}",
    "--enable-debug-command",
    "yes",
    "--loglevel",
    "warning",
];

/// A Redis 8.2: the one that [`REDIS_VARIABLE`] names, or the `redis-server` that is installed.
///
/// # Errors
/// There is none; the text says what to do.
pub fn redis() -> Result<Recipe, String> {
    let named = std::env::var_os(REDIS_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    let program = named.clone().unwrap_or_else(|| PathBuf::from("redis-server"));
    let version = version_of(&program).unwrap_or_default();
    if !version.contains("v=8.2.") {
        let found = match (named, version.is_empty()) {
            (None, true) => "there is no redis-server".to_owned(),
            (Some(path), true) => format!("{} does not run", path.display()),
            (_, false) => format!("{} is {}", program.display(), version.trim()),
        };
        return Err(format!(
            "no Redis 8.2 at hand ({found}); `cargo run -p benchmark -- fetch redis` fetches one and \
             shows its path, for {REDIS_VARIABLE}"
        ));
    }
    let words = [program.display().to_string()].into_iter();
    let words = words.chain(REDIS_ARGUMENTS.map(str::to_owned)).collect();
    Ok(Recipe { label: "redis".to_owned(), words })
}

fn version_of(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Osmia as this program, which has the server inside (see `bin/differential.rs`).
pub fn osmia(program: &Path, shards: usize) -> Recipe {
    let shards = shards.to_string();
    let words = [
        &program.display().to_string(),
        "server",
        "--port",
        "{port}",
        "--bind",
        "127.0.0.1",
        "--dir",
        "{folder}",
        "--enable-debug-command",
        "yes",
        "--shards",
        &shards,
    ];
    Recipe { label: "osmia".to_owned(), words: words.map(str::to_owned).to_vec() }
}
