//! Configuration files and command-line options, in Redis's syntax.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::value::{Kind, unknown_word};
use super::{Config, DIRECTIVES, find};
use crate::resp::inline;

/// Files that `include` may nest.
const INCLUDE_DEPTH_MAX: usize = 16;

/// Directives of Redis that have no value in CONFIG GET: what becomes of each.
const OTHERS: &[(&str, Other)] = &[
    ("include", Other::Include),
    ("rename-command", Other::Refused("commands cannot be renamed yet")),
    ("loadmodule", Other::Refused("modules are not supported")),
    ("user", Other::Refused("access control lists are not supported yet")),
];

#[derive(Clone, Copy)]
enum Other {
    Include,
    Refused(&'static str),
}

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
        if self.line > 0 {
            write!(
                f,
                "\nReading the configuration file, at line {}\n>>> '{}'",
                self.line, self.text
            )?;
        }
        write!(f, "\n{}", self.reason)?;
        if self.line > 0 { write!(f, " ({}:{})", self.place, self.line) } else { Ok(()) }
    }
}

impl std::error::Error for ConfigError {}

/// Splits a line in words, with the quoting of inline requests. `None`: a quote is left open.
pub fn split_words(line: &str) -> Option<Vec<String>> {
    let words = inline::split(line.as_bytes()).ok()?;
    Some(words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

/// Reads the program's arguments: `[file] [--name value ...] [-]`.
pub(super) fn load(args: &[String]) -> Result<Config, ConfigError> {
    let mut config = Config::new();
    let (file, options) = match args.split_first() {
        Some((file, rest)) if !file.starts_with("--") && file != "-" => (Some(file), rest),
        _ => (None, args),
    };
    let mut loader = Loader { config: &mut config, saves: false };
    if let Some(file) = file {
        loader.file(Path::new(file), 0)?;
    }
    let (lines, from_stdin) = option_lines(options);
    if from_stdin {
        loader.stdin()?;
    }
    for (number, line) in lines.into_iter().enumerate() {
        let done = loader.directive(&line.words, Path::new("command line"), 0);
        done.map_err(|reason| ConfigError {
            place: "command line".to_owned(),
            line: number + 1,
            text: line.text,
            reason,
        })?;
    }
    if let Some(file) = file {
        config.file = Some(std::fs::canonicalize(file).unwrap_or_else(|_| PathBuf::from(file)));
    }
    config.derive();
    Ok(config)
}

/// A line that the command line stands for.
#[derive(Debug)]
struct OptionLine {
    words: Vec<String>,
    /// How an error shows it: the name as it is, the values quoted.
    text: String,
}

/// Turns `--name value ...` into lines; says whether a last `-` asks for standard input as well.
///
/// An argument that begins with two dashes is a name, unless the one before it is a name alone:
/// then it is that one's value. An argument may hold the whole line: `--"save 100 100"`.
fn option_lines(mut options: &[String]) -> (Vec<OptionLine>, bool) {
    let mut lines: Vec<OptionLine> = Vec::new();
    let from_stdin = options.last().is_some_and(|last| last == "-");
    if from_stdin {
        options = &options[..options.len() - 1];
    }
    let mut name_may_follow = true;
    for (index, option) in options.iter().enumerate() {
        let name = option.strip_prefix("--").filter(|_| name_may_follow);
        let Some(name) = name else {
            name_may_follow = true;
            match lines.last_mut() {
                Some(line) => {
                    line.words.push(option.clone());
                    line.text.push_str(&format!(" {}", quoted(option)));
                }
                None => {
                    lines.push(OptionLine { words: vec![option.clone()], text: quoted(option) })
                }
            }
            continue;
        };
        let mut words = split_words(name).unwrap_or_else(|| vec![name.to_owned()]);
        name_may_follow = words.len() != 1;
        let next = options.get(index + 1);
        if words.len() == 1 && words[0] == "save" && next.is_none_or(|next| next.starts_with("--"))
        {
            // Without points that name no value is needed.
            words.push(String::new());
            name_may_follow = true;
        }
        lines.push(OptionLine { words, text: name.to_owned() });
    }
    (lines, from_stdin)
}

/// A value as an error shows it.
fn quoted(value: &str) -> String {
    format!("\"{}\"", value.escape_default())
}

struct Loader<'a> {
    config: &'a mut Config,
    /// A `save` line was met: further ones add to it.
    saves: bool,
}

impl Loader<'_> {
    fn file(&mut self, path: &Path, depth: usize) -> Result<(), ConfigError> {
        let fail = |reason: String| ConfigError {
            place: path.display().to_string(),
            line: 0,
            text: String::new(),
            reason,
        };
        let bytes = std::fs::read(path).map_err(|error| {
            fail(format!("Can't open config file '{}': {error}", path.display()))
        })?;
        self.text(&String::from_utf8_lossy(&bytes), path, depth)
    }

    fn stdin(&mut self) -> Result<(), ConfigError> {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(|error| ConfigError {
            place: "standard input".to_owned(),
            line: 0,
            text: String::new(),
            reason: format!("Can't read standard input: {error}"),
        })?;
        self.text(&text, Path::new("standard input"), 0)
    }

    fn text(&mut self, text: &str, place: &Path, depth: usize) -> Result<(), ConfigError> {
        for (index, line) in text.lines().enumerate() {
            let line = line.trim_matches([' ', '\t', '\r', '\n']);
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let fail = |reason: String| ConfigError {
                place: place.display().to_string(),
                line: index + 1,
                text: line.to_owned(),
                reason,
            };
            let words = split_words(line)
                .ok_or_else(|| fail("Unbalanced quotes in configuration line".to_owned()))?;
            if words.is_empty() {
                continue;
            }
            if words[0].eq_ignore_ascii_case("include") && words.len() == 2 {
                self.include(&words[1], place, depth).map_err(|error| match error {
                    Included::Missing(reason) => fail(reason),
                    Included::Wrong(error) => error,
                })?;
                continue;
            }
            self.directive(&words, place, depth).map_err(fail)?;
        }
        Ok(())
    }

    fn include(&mut self, pattern: &str, from: &Path, depth: usize) -> Result<(), Included> {
        if depth >= INCLUDE_DEPTH_MAX {
            return Err(Included::Missing("Too many nested include directives".to_owned()));
        }
        let _ = from;
        for path in expand(pattern) {
            self.file(&path, depth + 1).map_err(Included::Wrong)?;
        }
        Ok(())
    }

    fn directive(&mut self, words: &[String], place: &Path, depth: usize) -> Result<(), String> {
        const BAD: &str = "Bad directive or wrong number of arguments";
        let Some((name, values)) = words.split_first() else { return Ok(()) };
        if let Some((_, other)) = OTHERS.iter().find(|(other, _)| name.eq_ignore_ascii_case(other))
        {
            return match other {
                Other::Include => {
                    match self.include(values.first().map_or("", String::as_str), place, depth) {
                        Ok(()) => Ok(()),
                        Err(Included::Missing(reason)) => Err(reason),
                        Err(Included::Wrong(error)) => Err(error.to_string()),
                    }
                }
                Other::Refused(reason) => Err(format!("{name}: {reason}")),
            };
        }
        let Some(index) = find(name.as_bytes()) else {
            return Err(format!("{BAD}: Osmia does not know the directive '{name}'"));
        };
        let directive = &DIRECTIVES[index];
        if values.is_empty() {
            return Err(match directive.kind {
                Kind::Set(words) => unknown_word(words),
                _ => BAD.to_owned(),
            });
        }
        if matches!(directive.kind, Kind::Save) && values.iter().any(|value| !value.is_empty()) {
            let mut value = values.join(" ");
            if self.saves {
                value = format!("{} {value}", self.config.values[index]);
            }
            self.saves = true;
            return self.config.set_at_start(index, &value);
        }
        if values.len() > 1 && !directive.kind.takes_words() {
            return Err("wrong number of arguments".to_owned());
        }
        self.config.set_at_start(index, &values.join(" "))
    }
}

enum Included {
    Missing(String),
    Wrong(ConfigError),
}

/// The files that an include pattern names, in the order of their names. A pattern without
/// special characters names itself.
fn expand(pattern: &str) -> Vec<PathBuf> {
    if !pattern.contains(['*', '?', '[']) {
        return vec![PathBuf::from(pattern)];
    }
    let path = Path::new(pattern);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| {
            let file_name = entry.file_name();
            let case = encodings::glob::Case::Keep;
            encodings::glob::matches(name.as_bytes(), file_name.to_string_lossy().as_bytes(), case)
        })
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load_args(args: &[&str]) -> Result<Config, ConfigError> {
        load(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>())
    }

    fn check(args: &[&str], name: &str, expected: &str) {
        let config = load_args(args).expect("a good command line");
        assert_eq!(config.value(name), expected, "{args:?}");
    }

    fn check_error(args: &[&str], expected: &str) {
        let error = load_args(args).expect_err("a bad command line").to_string();
        assert!(error.contains(expected), "{args:?}: {error}");
    }

    #[test]
    fn options() {
        check(&["--port", "7000"], "port", "7000");
        check(&["--save", ""], "save", "");
        check(&["--save", "100", "100", "--port", "1"], "save", "100 100");
        check(&["--save 100 100"], "save", "100 100");
        check(&["--maxmemory", "700mb"], "maxmemory", "734003200");
        check(&["--requirepass", "--x"], "requirepass", "--x");
        check(&["--bind", "127.0.0.1", "::1"], "bind", "127.0.0.1 ::1");
        check(&["--shutdown-on-sigint", "nosave", "force"], "shutdown-on-sigint", "nosave force");
        check_error(&["--port"], "wrong number of arguments");
        check_error(&["--nope", "1"], "'nope'");
        check_error(&["--port", "x"], "couldn't be parsed into an integer");
        check_error(&["--port", "1", "2"], "wrong number of arguments");
    }

    #[test]
    fn files_with_includes() {
        let folder = std::env::temp_dir().join(format!("osmia-config-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let main = folder.join("main.conf");
        let extra = folder.join("extra.conf");
        std::fs::write(&extra, "maxclients 5\n").expect("a file");
        let text = format!(
            "# comment\n\nPORT 7001\nsave 1 2\nsave 3 4\nrequirepass \"a b\"\ninclude {}/ex*.conf\n",
            folder.display()
        );
        std::fs::write(&main, text).expect("a file");
        let config = load_args(&[&main.display().to_string(), "--port", "7002"]).expect("good");
        assert_eq!(config.port, 7002);
        assert_eq!(config.value("save"), "1 2 3 4");
        assert_eq!(config.requirepass, "a b");
        assert_eq!(config.maxclients, 5);
        std::fs::write(&extra, "port 1\nnope 1\n").expect("a file");
        let error = load_args(&[&main.display().to_string()]).expect_err("a bad line").to_string();
        assert!(error.contains("at line 2\n>>> 'nope 1'"), "{error}");
        assert!(error.contains("extra.conf:2"), "{error}");
        std::fs::write(&main, "port \"7001\n").expect("a file");
        check_error(&[&main.display().to_string()], "Unbalanced quotes in configuration line");
        std::fs::remove_dir_all(&folder).expect("the folder");
    }
}
