//! CONFIG SET: all pairs or none.

use super::directives::{AT_START, IMMUTABLE, PROTECTED};
use super::{Config, DIRECTIVES, check, find};

const CANNOT_CHANGE: &str = "can't set immutable config";

/// Why CONFIG SET refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetError {
    /// A name that is no directive.
    Unknown(Vec<u8>),
    /// The name and why.
    Refused(String, String),
}

impl Config {
    /// CONFIG SET: all pairs or none. `local` tells that the client is on this machine.
    ///
    /// # Errors
    /// [`SetError`]; nothing has changed.
    pub fn set(&mut self, pairs: &[(&[u8], &[u8])], local: bool) -> Result<(), SetError> {
        let indexes = self.settable(pairs, local)?;
        let mut values = self.values.clone();
        for (index, (name, value)) in indexes.into_iter().zip(pairs) {
            let directive = &DIRECTIVES[index];
            let words = directive.kind.words(value);
            // An alias is told from the name that it stands for.
            let refused = |why: String| {
                SetError::Refused(String::from_utf8_lossy(name).to_ascii_lowercase(), why)
            };
            let new = canonical(index, &words, &values[index]).map_err(refused)?;
            if directive.is(AT_START) && new != values[index] {
                return Err(refused(CANNOT_CHANGE.to_owned()));
            }
            values[index] = new;
        }
        self.values = values;
        self.derive();
        Ok(())
    }

    /// The directives of the pairs, which may all be set. Their values come later, as in Redis.
    fn settable(&self, pairs: &[(&[u8], &[u8])], local: bool) -> Result<Vec<usize>, SetError> {
        let mut indexes = Vec::with_capacity(pairs.len());
        for (name, _) in pairs {
            let index = find(name).ok_or_else(|| SetError::Unknown(name.to_vec()))?;
            let refuse = |why: &str| {
                let shown = String::from_utf8_lossy(name).into_owned();
                Err(SetError::Refused(shown, why.to_owned()))
            };
            if DIRECTIVES[index].is(IMMUTABLE) {
                return refuse(CANNOT_CHANGE);
            }
            if DIRECTIVES[index].is(PROTECTED) && !self.allows_protected(local) {
                return refuse("can't set protected config");
            }
            if indexes.contains(&index) {
                return refuse("duplicate parameter");
            }
            indexes.push(index);
        }
        Ok(indexes)
    }

    fn allows_protected(&self, local: bool) -> bool {
        match self.enable_protected_configs.as_str() {
            "yes" => true,
            "local" => local,
            _ => false,
        }
    }
}

/// The canonical value of a directive, checked beyond its kind.
///
/// # Errors
/// Why the value is refused.
pub(super) fn canonical(index: usize, words: &[&[u8]], current: &[u8]) -> Result<Vec<u8>, String> {
    let directive = &DIRECTIVES[index];
    let current = String::from_utf8_lossy(current);
    let value = directive.kind.canonical(words, &current).map_err(|why| why.into_owned())?;
    match std::str::from_utf8(&value) {
        Ok(text) => check::check(directive.name, text).map(|adjusted| match adjusted {
            Some(adjusted) => adjusted.into_bytes(),
            None => value,
        }),
        Err(_) => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pairs: &[(&str, &str)], name: &str, reason: &str) {
        let mut config = Config::new();
        let bytes: Vec<_> =
            pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        let error = config.set(&bytes, true);
        let expected = match reason {
            "" => SetError::Unknown(name.as_bytes().to_vec()),
            _ => SetError::Refused(name.to_owned(), reason.to_owned()),
        };
        assert_eq!(error, Err(expected), "{pairs:?}");
        assert_eq!(config.values, Config::new().values, "{pairs:?}");
    }

    #[test]
    fn set_takes_all_or_nothing() {
        let memory = "argument must be a memory value";
        check(&[("hz", "20"), ("MaxMemory", "x")], "maxmemory", memory);
        check(&[("hz", "20"), ("nope", "1")], "nope", "");
        // Names are looked at before values.
        check(&[("maxmemory", "x"), ("Databases", "2")], "Databases", "can't set immutable config");
        check(&[("shards", "7")], "shards", "can't set immutable config");
        check(&[("dbfilename", "a")], "dbfilename", "can't set protected config");
        check(&[("hz", "1"), ("HZ", "2")], "HZ", "duplicate parameter");
        check(&[("save", "1  2")], "save", "Invalid save parameters");
        check(
            &[("maxmemory", "99999999999999999999")],
            "maxmemory",
            "argument must be greater or equal to 0",
        );
    }

    #[test]
    fn set_changes_values_and_fields() {
        let mut config = Config::new();
        let pairs: [(&[u8], &[u8]); 5] = [
            (b"HZ", b"1000"),
            (b"maxmemory", b"1mb"),
            (b"requirepass", b"\xff\0"),
            (b"shards", b"auto"),
            (b"slave-priority", b"7"),
        ];
        assert_eq!(config.set(&pairs, true), Ok(()));
        assert_eq!(config.maxmemory, 1 << 20);
        assert_eq!(config.requirepass, b"\xff\0");
        assert_eq!(config.value("hz"), "500");
        assert_eq!(config.value("replica-priority"), "7");
    }

    #[test]
    fn protected_directives_are_for_those_who_may() {
        let mut config = Config::new();
        config.enable_protected_configs = "local".to_owned();
        let pairs: [(&[u8], &[u8]); 1] = [(b"dbfilename", b"a.rdb")];
        assert!(config.set(&pairs, false).is_err());
        assert_eq!(config.set(&pairs, true), Ok(()));
    }

    #[test]
    fn foreign_bytes_do_no_harm() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut config = Config::new();
        for _ in 0..3_000 {
            let directive = &DIRECTIVES[next() as usize % DIRECTIVES.len()];
            let alphabet = b"0129-+kmgb% \0\xff\xc3\xa4aAxeKE{}yes/.\"";
            let len = next() as usize % 8;
            let value: Vec<u8> =
                (0..len).map(|_| alphabet[next() as usize % alphabet.len()]).collect();
            let before = config.values.clone();
            if config.set(&[(directive.name.as_bytes(), &value)], true).is_err() {
                assert_eq!(config.values, before);
            }
            // What was taken is taken again.
            let index = find(directive.name.as_bytes()).expect("in the table");
            let kept = config.values[index].clone();
            let words = directive.kind.words(&kept);
            if directive.name != "replicaof" {
                assert_eq!(canonical(index, &words, &kept), Ok(kept.clone()), "{}", directive.name);
            }
        }
    }
}
