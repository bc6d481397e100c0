//! Files, options and the texts of their errors; the texts are Redis 8.2.3's.

use super::*;

fn load_args(args: &[&str]) -> Result<Config, ConfigError> {
    load(&args.iter().map(Into::into).collect::<Vec<_>>())
}

fn check(args: &[&str], name: &str, expected: &str) {
    let config = load_args(args).expect("a good command line");
    assert_eq!(config.value(name), expected, "{args:?}");
}

fn check_error(args: &[&str], line: usize, text: &str, reason: &str) {
    let error = load_args(args).expect_err("a bad command line").to_string();
    let head = "\n*** FATAL CONFIG FILE ERROR (Redis 8.2.3) ***\nReading the configuration file, at \
                line";
    let expected = format!("{head} {line}\n>>> '{text}'\n{reason}\n(command line, line {line})");
    assert_eq!(error, expected, "{args:?}");
}

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("osmia-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn options() {
    check(&["--port", "7000"], "port", "7000");
    check(&["--save", ""], "save", "");
    check(&["--save", "100", "100", "--port", "1"], "save", "100 100");
    check(&["--save 100 100"], "save", "100 100");
    check(&["--save", "--loglevel", "verbose"], "save", "");
    check(&["--loglevel", "verbose", "--save"], "save", "");
    check(&["--maxmemory '700mb'"], "maxmemory", "734003200");
    check(&["--proc-title-template", "--x"], "proc-title-template", "--x");
    check(&["--bind", "127.0.0.1", "::1"], "bind", "127.0.0.1 ::1");
    check(
        &["--shutdown-on-sigint", "nosave", "force", "now"],
        "shutdown-on-sigint",
        "nosave now force",
    );
    check(&["--shutdown-on-sigint", "nosave force"], "shutdown-on-sigint", "nosave force");
    check(&["--cluster-enabled", "yes"], "databases", "1");
    check(&["--list-max-ziplist-value", "1"], "port", "6379");
}

#[test]
fn options_that_are_wrong() {
    let bad = "Bad directive or wrong number of arguments";
    let number = "wrong number of arguments";
    let log = "argument(s) must be one of the following: debug, verbose, notice, warning, nothing";
    let signal = "argument(s) must be one of the following: default, save, nosave, now, force";
    check_error(&["--invalid"], 2, "invalid", &format!("{bad}\nUnknown directive 'invalid'"));
    check_error(&["--port"], 2, "port", number);
    check_error(&["--port", "6380", "--loglevel"], 3, "loglevel", number);
    check_error(&["--port", "6379", "6380"], 2, "port \"6379\" \"6380\"", number);
    check_error(&["--port", "--loglevel", "verbose"], 2, "port \"--loglevel\" \"verbose\"", number);
    let integer = "argument couldn't be parsed into an integer";
    check_error(&["--port", "--bla", "--loglevel", "verbose"], 2, "port \"--bla\"", integer);
    check_error(&["--hz", "1", "--loglevel", "--bla"], 3, "loglevel \"--bla\"", log);
    check_error(&["--shutdown-on-sigint"], 2, "shutdown-on-sigint", signal);
    let master = "Invalid master port";
    check_error(&["--replicaof", "--1", "abc"], 2, "replicaof \"--1\" \"abc\"", master);
    check_error(&["--replicaof", "--1", "--abc"], 2, "replicaof \"--1\"", number);
    check_error(
        &["--rename-command", "nope", "x"],
        2,
        "rename-command \"nope\" \"x\"",
        "No such command in rename-command",
    );
    check_error(&["--loadmodule", "x.so"], 2, "loadmodule \"x.so\"", "modules are not supported");
}

#[test]
fn files_with_includes() {
    let folder = Folder::new("includes");
    let extra = folder.write("extra.conf", "maxclients 5\n");
    folder.write("other.conf", "hz 1\n");
    let base = folder.0.display();
    let text = format!(
        "# comment\n\n\tPORT 7001 \r\nsave 1 2\nsave 3 4\nrequirepass \"a\\xff b\"\n\
         include {base}/ex*.conf\ninclude {base}/nothing*.conf\ninclude \"{base}/other.conf\"\n"
    );
    let main = folder.write("main.conf", text);
    let config = load_args(&[&main, "--port", "7002", "--save", "5", "6"]).expect("good");
    assert_eq!(config.port, 7002);
    assert_eq!(config.value("save"), "1 2 3 4 5 6");
    assert_eq!(config.requirepass, b"a\xff b");
    assert_eq!((config.maxclients, config.value("hz")), (5, "1"));
    folder.write("extra.conf", "port 1\nnope 1\n");
    let error = load_args(&[&main]).expect_err("a bad line");
    assert_eq!((error.line, error.text.as_str(), &error.place), (2, "nope 1", &extra));
    let error = error.to_string();
    assert!(error.contains("Unknown directive 'nope'\n("), "{error}");
}

#[test]
fn files_that_are_wrong() {
    let folder = Folder::new("wrong");
    let main = folder.write("main.conf", "port 1\nport \"7001\n");
    let error = load_args(&[&main]).expect_err("an open quote");
    assert_eq!(error.line, 2);
    assert_eq!(error.reason, "Unbalanced quotes in configuration line");
    let missing = folder.0.join("missing.conf").display().to_string();
    let error = load_args(&[&missing]).expect_err("no file").reason;
    let expected =
        format!("Fatal error, can't open config file '{missing}': No such file or directory");
    assert_eq!(error, expected);
    let itself = folder.write("self.conf", "");
    folder.write("self.conf", format!("include {itself}\n"));
    let error = load_args(&[&itself]).expect_err("an endless file").reason;
    assert_eq!(error, "Too many nested include directives");
    let error = load_args(&["--logfile", "/nope/x"]).expect_err("no folder").reason;
    assert_eq!(error, "Can't open the log file: No such file or directory");
}

#[test]
fn save_lines_add_up_until_an_empty_one() {
    let folder = Folder::new("saves");
    let main = folder.write("main.conf", "save 1 1\nsave \"\"\nsave 2 2\nsave \"3 3 4 4\"\n");
    check(&[&main], "save", "2 2 3 3 4 4");
    check(&[&main, "--save", ""], "save", "");
}

#[test]
fn the_user_that_every_server_has_may_be_named() {
    let load = |rules: &str| {
        let folder = Folder::new("users");
        let main = folder.write("main.conf", format!("user {rules}\n"));
        load_args(&[&main]).map(drop).map_err(|error| error.reason)
    };
    assert_eq!(load("default on nopass sanitize-payload ~* &* +@all"), Ok(()));
    let refused = Err("access control lists are not supported yet".to_owned());
    for rules in [
        "default on nopass ~* &* +@all -flushall",
        "default off nopass ~* &* +@all",
        "default on >secret ~* &* +@all",
        "default on nopass",
        "alice on nopass ~* &* +@all",
    ] {
        assert_eq!(load(rules), refused, "{rules}");
    }
}

#[test]
fn commands_get_other_names() {
    let renames = |text: &str| {
        let folder = Folder::new("renames");
        let main = folder.write("main.conf", text);
        load_args(&[&main]).map(|config| config.renamed_commands).map_err(|error| error.reason)
    };
    let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    let found = renames("rename-command FLUSHDB badger\nrename-command get \"\"\n");
    assert_eq!(found, Ok(vec![pair("flushdb", "badger"), pair("get", "")]));
    // A name that was given away may be taken, and a new name changed again.
    let found = renames("rename-command get a\nrename-command set get\nrename-command a b\n");
    assert_eq!(found, Ok(vec![pair("set", "get"), pair("get", "b")]));
    let taken = Err("Target command name already exists".to_owned());
    assert_eq!(renames("rename-command get set\n"), taken);
    let missing = Err("No such command in rename-command".to_owned());
    assert_eq!(renames("rename-command get \"\"\nrename-command get x\n"), missing);
}

#[test]
fn foreign_bytes_do_no_harm() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    let names =
        ["save", "port", "client-output-buffer-limit", "bind", "hz", "rename-command", "a.b"];
    for _ in 0..3_000 {
        let mut text = names[next() % names.len()].as_bytes().to_vec();
        for _ in 0..next() % 12 {
            let alphabet = b" \"'\\x0a\t\r\n\0#\xff12kmb-";
            text.push(alphabet[next() % alphabet.len()]);
        }
        let mut config = Config::new();
        let mut loader = Loader { config: &mut config, has_saves: false };
        let _ = loader.text(&text, "here", 0, 0);
        config.derive();
    }
}
