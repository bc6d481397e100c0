//! Checks of single directives beyond their kinds, and what Osmia must refuse.
//!
//! A directive whose effect is missing is accepted where a server without it is merely slower or
//! less talkative. It is refused where the operator would be deceived: a replica that is none, a
//! port without TLS behind it, users that are not checked, a promise to write to disk.

/// Checks a canonical value; returns another one where Redis adjusts it.
///
/// # Errors
/// Why it is refused.
pub(super) fn check(name: &str, value: &str) -> Result<Option<String>, String> {
    match refusal(name, value) {
        Some(reason) => Err(reason),
        None if name == "hz" => Ok(Some(clamped(value, 1, 500))),
        None if name == "repl-backlog-size" => Ok(Some(clamped(value, 16 << 10, i64::MAX))),
        None => Ok(None),
    }
}

fn clamped(value: &str, min: i64, max: i64) -> String {
    value.parse().unwrap_or(max).clamp(min, max).to_string()
}

fn refusal(name: &str, value: &str) -> Option<String> {
    let text = match name {
        "dbfilename" if value.contains('/') => "dbfilename can't be a path, just a filename",
        "appendfilename" if value.is_empty() => "appendfilename can't be empty",
        "appendfilename" if value.contains('/') => {
            "appendfilename can't be a path, just a filename"
        }
        "appenddirname" if value.is_empty() => "appenddirname can't be empty",
        "appenddirname" if value.contains('/') => "appenddirname can't be a path, just a dirname",
        "dir" => return folder_refusal(value),
        "locale-collate" if !is_locale(value) => "Invalid locale name",
        "cluster-announce-hostname" if value.len() >= 256 => {
            "Hostnames must be less than 256 characters"
        }
        "cluster-announce-hostname" if !value.bytes().all(is_of_hostname) => {
            "Hostnames may only contain alphanumeric characters, hyphens or dots"
        }
        "cluster-announce-human-nodename" if !value.chars().all(is_of_node_name) => {
            "Announced human node name contained invalid character"
        }
        "proc-title-template" if !is_title_template(value) => {
            "template format is invalid or contains unknown variables"
        }
        "aclfile" if !value.is_empty() => "access control lists are not supported yet",
        "tls-port" if value != "0" => "TLS is not supported yet",
        "replicaof" if !value.is_empty() => "replication is not supported yet",
        "durability" if value != "memory" => "writing to disk is not supported yet",
        _ => return None,
    };
    Some(text.to_owned())
}

fn folder_refusal(path: &str) -> Option<String> {
    let error = match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => return None,
        Ok(_) => std::io::ErrorKind::NotADirectory.into(),
        Err(error) => error,
    };
    Some(plain(&error))
}

/// The system's words for an error, without its number.
pub(super) fn plain(error: &std::io::Error) -> String {
    let text = match error.kind() {
        std::io::ErrorKind::NotADirectory => "Not a directory".to_owned(),
        _ => error.to_string(),
    };
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

fn is_of_hostname(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.'
}

fn is_of_node_name(c: char) -> bool {
    !"!#$%&()*+:;<>?@[]^{|}~".contains(c)
}

/// Whether a text looks like the name of a locale.
fn is_locale(name: &str) -> bool {
    let language = name.split(['_', '.', '@']).next().unwrap_or_default();
    ["", "C", "POSIX"].contains(&name)
        || language == "C"
        || ((2..=3).contains(&language.len())
            && language.bytes().all(|byte| byte.is_ascii_lowercase()))
}

/// Whether a text with `{variables}` has only known ones, and is not blank.
fn is_title_template(template: &str) -> bool {
    const VARIABLES: &[&str] =
        &["title", "listen-addr", "server-mode", "port", "tls-port", "unixsocket", "config-file"];
    let mut rest = template;
    while let Some((_, after)) = rest.split_once('{') {
        rest = match after.strip_prefix('{') {
            // Doubled, it stands for itself.
            Some(after) => after,
            None => match after.split_once('}') {
                Some((variable, after)) if VARIABLES.contains(&variable) => after,
                _ => return false,
            },
        };
    }
    !template.trim_matches(' ').is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(name: &str, values: &[&str]) {
        for value in values {
            assert!(check(name, value).is_ok(), "{name} {value}");
        }
    }

    fn refuses(name: &str, values: &[&str]) {
        for value in values {
            assert!(check(name, value).is_err(), "{name} {value}");
        }
    }

    #[test]
    fn values_beyond_their_kinds() {
        accepts("proc-title-template", &["x", "{title} {port}", "{{title"]);
        refuses("proc-title-template", &["", "  ", "{nope}", "{title", "{"]);
        accepts("cluster-announce-hostname", &["", "a-1.example"]);
        refuses("cluster-announce-hostname", &["a_b", "a b"]);
        accepts("dir", &["/", "."]);
        assert_eq!(check("dir", "/nope/x"), Err("No such file or directory".to_owned()));
        assert_eq!(check("dir", "/dev/null"), Err("Not a directory".to_owned()));
        assert_eq!(check("hz", "0"), Ok(Some("1".to_owned())));
    }

    #[test]
    fn promises_that_cannot_be_kept_are_refused() {
        refuses("aclfile", &["users.acl"]);
        refuses("tls-port", &["6380"]);
        refuses("replicaof", &["host 6379"]);
        refuses("durability", &["always", "everysec"]);
        accepts("durability", &["memory"]);
        accepts("appendonly", &["yes"]);
    }
}
