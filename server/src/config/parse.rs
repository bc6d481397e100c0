//! Configuration files, standard input and options, read line by line.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::check::plain;
use super::directives::Other;
use super::rewrite::lossy;
use super::value::Kind;
use super::{Config, DIRECTIVES, find, options, set, words};

/// Files that `include` may nest.
const INCLUDE_DEPTH_MAX: usize = 16;

const BAD_DIRECTIVE: &str = "Bad directive or wrong number of arguments";

/// What is wrong with the configuration, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, or what stands for it.
    pub place: String,
    /// The line, from 1; 0 is the file itself.
    pub line: usize,
    /// The text of the line.
    pub text: String,
    /// Why.
    pub reason: String,
}

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\n*** FATAL CONFIG FILE ERROR (Redis {}) ***", crate::start::REDIS_VERSION)?;
        if self.line == 0 {
            return write!(f, "\n{}", self.reason);
        }
        write!(f, "\nReading the configuration file, at line {}\n", self.line)?;
        write!(f, ">>> '{}'\n{}\n({}, line {})", self.text, self.reason, self.place, self.line)
    }
}

impl std::error::Error for ConfigError {}

/// Reads the program's arguments: `[file] [--name value ...] [-]`.
pub(super) fn load(args: &[OsString]) -> Result<Config, ConfigError> {
    let options = options::read(args);
    let mut config = Config::new();
    let mut loader = Loader { config: &mut config, has_saves: false };
    let mut lines_before = 0;
    if let Some(file) = &options.file {
        lines_before = loader.file(Path::new(file), 0)?;
    }
    if options.from_stdin {
        lines_before += loader.standard_input(lines_before)?;
    }
    // Redis numbers the options on from the file, after a line end of its own.
    loader.text(&options.lines, "command line", lines_before + 1, 0)?;
    finish(&mut config)?;
    if let Some(file) = options.file {
        config.file = Some(std::fs::canonicalize(&file).unwrap_or_else(|_| PathBuf::from(file)));
    }
    config.derive();
    Ok(config)
}

/// Checks that need the whole configuration.
fn finish(config: &mut Config) -> Result<(), ConfigError> {
    let log_file = config.value("logfile");
    if !log_file.is_empty() {
        let opened = std::fs::OpenOptions::new().append(true).create(true).open(log_file);
        opened
            .map_err(|error| file_error(format!("Can't open the log file: {}", plain(&error))))?;
    }
    if config.is_yes("cluster-enabled") {
        // A cluster has one database.
        let index = find(b"databases").expect("in the table");
        config.values[index] = b"1".to_vec();
    }
    Ok(())
}

fn file_error(reason: String) -> ConfigError {
    ConfigError { place: String::new(), line: 0, text: String::new(), reason }
}

/// Why a line is wrong: for a reason of its own, or because of a file that it includes.
enum Fault {
    Reason(String),
    Included(ConfigError),
}

impl From<&str> for Fault {
    fn from(reason: &str) -> Self {
        Self::Reason(reason.to_owned())
    }
}

struct Loader<'a> {
    config: &'a mut Config,
    /// A `save` line was met: further ones add to it.
    has_saves: bool,
}

impl Loader<'_> {
    /// Reads a file; returns the number of its line ends.
    fn file(&mut self, path: &Path, depth: usize) -> Result<usize, ConfigError> {
        let bytes = std::fs::read(path).map_err(|error| {
            let (path, error) = (path.display(), plain(&error));
            file_error(format!("Fatal error, can't open config file '{path}': {error}"))
        })?;
        self.text(&bytes, &path.display().to_string(), 0, depth)
    }

    fn standard_input(&mut self, lines_before: usize) -> Result<usize, ConfigError> {
        let mut bytes = Vec::new();
        std::io::stdin()
            .read_to_end(&mut bytes)
            .map_err(|error| file_error(format!("Can't read standard input: {}", plain(&error))))?;
        self.text(&bytes, "standard input", lines_before, 0)
    }

    /// Reads lines, of which the first has the number `lines_before + 1`; returns how many line
    /// ends they have.
    fn text(
        &mut self,
        text: &[u8],
        place: &str,
        lines_before: usize,
        depth: usize,
    ) -> Result<usize, ConfigError> {
        let mut line_ends = 0;
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            line_ends = index;
            let line = trimmed(line);
            self.line(line, depth).map_err(|fault| match fault {
                Fault::Included(error) => error,
                Fault::Reason(reason) => ConfigError {
                    place: place.to_owned(),
                    line: lines_before + index + 1,
                    text: lossy(line),
                    reason,
                },
            })?;
        }
        Ok(line_ends)
    }

    fn line(&mut self, line: &[u8], depth: usize) -> Result<(), Fault> {
        if line.is_empty() || line[0] == b'#' {
            return Ok(());
        }
        let words = words::split(line).ok_or("Unbalanced quotes in configuration line")?;
        let Some((name, values)) = words.split_first() else { return Ok(()) };
        match find(name) {
            Some(index) => self.directive(index, values).map_err(Fault::Reason),
            None => self.other(&lossy(name).to_ascii_lowercase(), values, depth),
        }
    }

    fn directive(&mut self, index: usize, values: &[Vec<u8>]) -> Result<(), String> {
        let kind = DIRECTIVES[index].kind;
        // One word may hold all of them.
        let split = match values {
            [value] if kind.takes_words() && !value.is_empty() => {
                Some(words::split(value).ok_or("Unbalanced quotes in configuration line")?)
            }
            _ => None,
        };
        let values: Vec<&[u8]> =
            split.as_deref().unwrap_or(values).iter().map(Vec::as_slice).collect();
        let current = self.config.values[index].clone();
        let mut value = set::canonical(index, &values, &current)?;
        if let Kind::Save = kind {
            let adds = self.has_saves && !current.is_empty() && !value.is_empty();
            if adds {
                value = [current.as_slice(), b" ", &value].concat();
            }
            self.has_saves = true;
        }
        self.config.values[index] = value;
        self.config.has_nodes_file |= DIRECTIVES[index].name == "cluster-config-file";
        Ok(())
    }

    /// A line that is no setting.
    fn other(&mut self, name: &str, values: &[Vec<u8>], depth: usize) -> Result<(), Fault> {
        match (Other::named(name), values) {
            (Some(Other::Include), [pattern]) => self.include(pattern, depth),
            (Some(Other::RenameCommand), [from, to]) => self.rename(&lossy(from), &lossy(to)),
            (Some(Other::Ignored), [_]) => Ok(()),
            (Some(Other::User), words) if is_default_user(words) => Ok(()),
            (Some(Other::User), _) => Err("access control lists are not supported yet".into()),
            (Some(Other::Refused(reason)), _) => Err(reason.into()),
            (Some(_), _) => Err(BAD_DIRECTIVE.into()),
            (None, _) if name.contains('.') => Err("modules are not supported".into()),
            (None, _) => Err(Fault::Reason(format!("{BAD_DIRECTIVE}\nUnknown directive '{name}'"))),
        }
    }

    fn include(&mut self, pattern: &[u8], depth: usize) -> Result<(), Fault> {
        if depth >= INCLUDE_DEPTH_MAX {
            return Err("Too many nested include directives".into());
        }
        let pattern = std::str::from_utf8(pattern).map_err(|_| "the path is not UTF-8")?;
        for path in expand(pattern) {
            self.file(&path, depth + 1).map_err(Fault::Included)?;
        }
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), Fault> {
        let (from, to) = (from.to_ascii_lowercase(), to.to_ascii_lowercase());
        let renamed = &mut self.config.renamed_commands;
        // A command is looked up by the name that it has by now.
        let place = renamed.iter().position(|(_, name)| *name == from);
        let is_free = |name: &str, renamed: &[(String, String)]| {
            renamed.iter().any(|(original, _)| original == name)
                || !crate::command::table::is_command(name)
        };
        if from.is_empty() || (place.is_none() && is_free(&from, renamed)) {
            return Err("No such command in rename-command".into());
        }
        let original = place.map_or(from, |place| renamed.remove(place).0);
        let is_taken = renamed.iter().any(|(_, name)| *name == to)
            || (to != original && !is_free(&to, renamed));
        if !to.is_empty() && is_taken {
            return Err("Target command name already exists".into());
        }
        if to != original {
            renamed.push((original, to));
        }
        Ok(())
    }
}

fn trimmed(line: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let start = line.iter().position(|byte| !is_space(byte)).unwrap_or(line.len());
    let end = line.iter().rposition(|byte| !is_space(byte)).map_or(start, |last| last + 1);
    &line[start..end]
}

/// The files that an include pattern names, in the order of their names. A pattern without
/// special characters names itself; one that fits no file is no error.
fn expand(pattern: &str) -> Vec<PathBuf> {
    let is_pattern = |text: &str| text.contains(['*', '?', '[']);
    if !is_pattern(pattern) {
        return vec![PathBuf::from(pattern)];
    }
    let mut paths = vec![PathBuf::from(if pattern.starts_with('/') { "/" } else { "" })];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        paths = paths.iter().flat_map(|folder| expand_part(folder, part)).collect();
    }
    paths.retain(|path| path.exists());
    paths.sort();
    paths
}

/// The entries of a folder that one part of a pattern names.
fn expand_part(folder: &Path, part: &str) -> Vec<PathBuf> {
    if !part.contains(['*', '?', '[']) {
        return vec![folder.join(part)];
    }
    let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Ok(entries) = std::fs::read_dir(listed) else { return Vec::new() };
    let fits = |name: &std::ffi::OsStr| {
        let name = name.as_encoded_bytes();
        // As in a shell, hidden files have to be asked for.
        (part.starts_with('.') || !name.starts_with(b"."))
            && encodings::glob::matches(part.as_bytes(), name, encodings::glob::Case::Keep)
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    names.filter(|name| fits(name)).map(|name| folder.join(name)).collect()
}

#[cfg(test)]
mod tests;

/// Whether words describe the user that every server has before anybody is added: without a
/// password, and allowed to do all.
fn is_default_user(words: &[Vec<u8>]) -> bool {
    let allowed: [&[u8]; 8] =
        [b"on", b"nopass", b"sanitize-payload", b"~*", b"allkeys", b"&*", b"allchannels", b"+@all"];
    let needed: [&[u8]; 3] = [b"on", b"nopass", b"+@all"];
    let [name, rules @ ..] = words else { return false };
    name == b"default"
        && rules.iter().all(|rule| allowed.contains(&rule.as_slice()))
        && needed.iter().all(|rule| rules.iter().any(|other| other == rule))
}
