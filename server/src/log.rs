//! The server's log: lines in Redis's form, to standard output or to `logfile`.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For developers.
    Debug,
    /// Many rarely useful lines.
    Verbose,
    /// What an operator of a production server wants to see.
    Notice,
    /// What needs attention.
    Warning,
}

impl Level {
    /// The level of a `loglevel` word; `nothing` is none.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "debug" => Some(Self::Debug),
            "verbose" => Some(Self::Verbose),
            "notice" => Some(Self::Notice),
            "warning" => Some(Self::Warning),
            _ => None,
        }
    }

    fn mark(self) -> char {
        match self {
            Self::Debug => '.',
            Self::Verbose => '-',
            Self::Notice => '*',
            Self::Warning => '#',
        }
    }
}

/// Above every level: nothing is written.
const NOTHING: u8 = 4;

static LEVEL: AtomicU8 = AtomicU8::new(Level::Notice as u8);
static PATH: Mutex<String> = Mutex::new(String::new());

/// Writes lines of at least this level; `None` writes none.
pub fn set_level(level: Option<Level>) {
    LEVEL.store(level.map_or(NOTHING, |level| level as u8), Ordering::Relaxed);
}

/// Writes to this file from now on; an empty path is standard output.
pub fn set_path(path: &str) {
    if let Ok(mut current) = PATH.lock() {
        path.clone_into(&mut current);
    }
}

/// Whether lines of a level are written.
pub fn is_on(level: Level) -> bool {
    level as u8 >= LEVEL.load(Ordering::Relaxed)
}

/// Writes one line. A log that cannot be written must not stop the server, so errors are dropped.
pub fn write(level: Level, text: &str) {
    if !is_on(level) {
        return;
    }
    let now = chrono::Local::now().format("%d %b %Y %H:%M:%S%.3f");
    let line = format!("{}:M {now} {} {text}\n", std::process::id(), level.mark());
    let _ = raw(line.as_bytes());
}

/// Writes bytes as they are (the banner).
///
/// # Errors
/// The error of opening or writing the file.
pub fn raw(bytes: &[u8]) -> io::Result<()> {
    let path = PATH.lock().map(|path| path.clone()).unwrap_or_default();
    if path.is_empty() {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        return out.flush();
    }
    // Opened for each line, so that the file can be moved away while the server runs.
    OpenOptions::new().append(true).create(true).open(path)?.write_all(bytes)
}

/// Logs at notice level, with `format!` arguments.
#[macro_export]
macro_rules! notice {
    ($($arg:tt)*) => { $crate::log::write($crate::log::Level::Notice, &format!($($arg)*)) };
}

/// Logs at warning level, with `format!` arguments.
#[macro_export]
macro_rules! warning {
    ($($arg:tt)*) => { $crate::log::write($crate::log::Level::Warning, &format!($($arg)*)) };
}

/// Logs at verbose level, with `format!` arguments; they are not evaluated when it is off.
#[macro_export]
macro_rules! verbose {
    ($($arg:tt)*) => {
        if $crate::log::is_on($crate::log::Level::Verbose) {
            $crate::log::write($crate::log::Level::Verbose, &format!($($arg)*))
        }
    };
}
