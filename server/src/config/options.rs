//! The arguments of the program, turned into lines of a configuration file as Redis does it.

use std::ffi::OsString;

use super::words;

/// What the arguments ask for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// The configuration file.
    pub(super) file: Option<OsString>,
    /// Whether standard input holds more configuration.
    pub(super) from_stdin: bool,
    /// The options as lines of a file.
    pub(super) lines: Vec<u8>,
}

/// Reads the arguments: `[file] [--name value ...] [-]`.
///
/// A first argument without a dash is the file. A lone dash, first or last, is standard input. An
/// argument that begins with two dashes starts a line, unless the one before it is a name that
/// still lacks its value; one argument may hold name and value. All others are words of the line.
/// `--save` may lack its value: it then stands for none.
pub(super) fn read(args: &[OsString]) -> Options {
    let mut options = Options::default();
    let mut rest = args;
    if let Some((first, after)) = args.split_first()
        && first.as_encoded_bytes().first().is_some_and(|byte| *byte != b'-')
    {
        options.file = Some(first.clone());
        rest = after;
    }
    let skipped = args.len() - rest.len();
    let mut lacks_value = false;
    for (index, arg) in rest.iter().enumerate() {
        let is_last = index + 1 == rest.len();
        let arg = arg.as_encoded_bytes();
        if arg == b"-" && (index + skipped == 0 || is_last) {
            options.from_stdin = true;
        } else if let Some(line) = arg.strip_prefix(b"--").filter(|_| !lacks_value) {
            if !options.lines.is_empty() {
                options.lines.push(b'\n');
            }
            options.lines.extend_from_slice(line);
            options.lines.push(b' ');
            lacks_value = words::split(arg).is_some_and(|words| words.len() == 1);
            let next_is_name = rest.get(index + 1).map(starts_line);
            if lacks_value && arg.eq_ignore_ascii_case(b"--save") && next_is_name != Some(false) {
                options.lines.extend_from_slice(b"\"\"");
                lacks_value = false;
            }
        } else {
            options.lines.extend_from_slice(&words::quoted(arg));
            options.lines.push(b' ');
            lacks_value = false;
        }
    }
    options
}

fn starts_line(arg: &OsString) -> bool {
    arg.as_encoded_bytes().starts_with(b"--")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(args: &[&str], file: Option<&str>, from_stdin: bool, lines: &str) {
        let args: Vec<OsString> = args.iter().map(Into::into).collect();
        let lines = lines.as_bytes().to_vec();
        let expected = Options { file: file.map(Into::into), from_stdin, lines };
        assert_eq!(read(&args), expected, "{args:?}");
    }

    #[test]
    fn arguments_become_lines() {
        check(&[], None, false, "");
        check(&["a.conf", "--port", "1"], Some("a.conf"), false, "port \"1\" ");
        check(&["-"], None, true, "");
        check(&["-", "--port", "1"], None, true, "port \"1\" ");
        check(&["a.conf", "-"], Some("a.conf"), true, "");
        check(&["--port", "-", "--hz", "1"], None, false, "port \"-\" \nhz \"1\" ");
        check(&["--port 1", "--hz", "2"], None, false, "port 1 \nhz \"2\" ");
        check(
            &["--requirepass", "--x", "--hz", "2"],
            None,
            false,
            "requirepass \"--x\" \nhz \"2\" ",
        );
        check(&["--save", "--hz", "2"], None, false, "save \"\"\nhz \"2\" ");
        check(&["--hz", "2", "--save"], None, false, "hz \"2\" \nsave \"\"");
        check(&["--save", "", "--hz", "2"], None, false, "save \"\" \nhz \"2\" ");
        check(&["--save", "1", "2", "3", "4"], None, false, "save \"1\" \"2\" \"3\" \"4\" ");
        check(&["a.conf", "hz", "2"], Some("a.conf"), false, "\"hz\" \"2\" ");
    }
}
