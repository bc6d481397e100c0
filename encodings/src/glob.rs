//! Glob patterns as KEYS, SCAN MATCH and CONFIG GET take them.
//!
//! `*` any bytes, `?` one byte, `[abc]`, `[a-z]`, `[^a]` one byte of a class, `\x` the byte `x`.
//! A class that is not closed ends with the pattern. The rules are Redis's (`stringmatchlen`);
//! matching remembers the last star only, so its time is at most the product of both lengths.

/// Whether letters match in either case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Letters match themselves.
    Keep,
    /// Letters match in either case.
    Ignore,
}

/// Whether `text` matches `pattern` as a whole.
pub fn matches(pattern: &[u8], text: &[u8], case: Case) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on after the last star: its rest of the pattern, and the text it has left.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let step = if p < pattern.len() && pattern[p] == b'*' {
            while pattern.get(p) == Some(&b'*') {
                p += 1;
            }
            if p == pattern.len() {
                return true;
            }
            retry = Some((p, t));
            continue;
        } else if p == pattern.len() {
            if t == text.len() {
                return true;
            }
            None
        } else if t == text.len() {
            // Only stars could match nothing. A longer text for the last star does not help.
            return false;
        } else {
            one(&pattern[p..], text[t], case)
        };
        match (step, retry) {
            (Some(len), _) => {
                p += len;
                t += 1;
            }
            (None, Some((after_star, start))) if start < text.len() => {
                retry = Some((after_star, start + 1));
                (p, t) = (after_star, start + 1);
            }
            (None, _) => return false,
        }
    }
}

/// Matches one byte with the first element of `pattern`; returns the element's length.
fn one(pattern: &[u8], byte: u8, case: Case) -> Option<usize> {
    let fold = |byte: u8| if case == Case::Ignore { byte.to_ascii_lowercase() } else { byte };
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', rest @ ..] => {
            let (matched, len) = class(rest, fold(byte), fold);
            matched.then_some(len + 1)
        }
        [b'\\', escaped, ..] => (fold(*escaped) == fold(byte)).then_some(2),
        [literal, ..] => (fold(*literal) == fold(byte)).then_some(1),
        [] => None,
    }
}

/// Matches a class behind its bracket; returns the length of the class, closing bracket with it.
fn class(class: &[u8], byte: u8, fold: impl Fn(u8) -> u8) -> (bool, usize) {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut matched = false;
    loop {
        match &class[at..] {
            [] => break,
            [b'\\', escaped, ..] => {
                matched |= fold(*escaped) == byte;
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [low, b'-', high, ..] => {
                let (low, high) = (fold(*low).min(fold(*high)), fold(*low).max(fold(*high)));
                matched |= (low..=high).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                matched |= fold(*literal) == byte;
                at += 1;
            }
        }
    }
    (matched != negated, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, text: &str, expected: bool) {
        let found = matches(pattern.as_bytes(), text.as_bytes(), Case::Keep);
        assert_eq!(found, expected, "{pattern} {text}");
    }

    #[test]
    fn patterns() {
        check("", "", true);
        check("*", "", true);
        check("*", "abc", true);
        check("h?llo", "hello", true);
        check("h?llo", "hllo", false);
        check("h[ae]llo", "hallo", true);
        check("h[^e]llo", "hello", false);
        check("h[^e]llo", "hallo", true);
        check("h[a-e]llo", "hbllo", true);
        check("h[e-a]llo", "hbllo", true);
        check("h\\*llo", "h*llo", true);
        check("h\\*llo", "hello", false);
        check("[abc", "a", true);
        check("[\\]]", "]", true);
        check("a**b*c", "aXbYc", true);
        check("a*b*c", "aXbY", false);
        check("*a", "baba", true);
        check("hell", "hello", false);
        check("\\", "\\", true);
    }

    #[test]
    fn case_can_be_ignored() {
        assert!(matches(b"H[A-C]LLO\\X", b"hbllox", Case::Ignore));
        assert!(!matches(b"H", b"h", Case::Keep));
    }

    #[test]
    fn many_stars_do_not_take_for_ever() {
        let pattern = b"a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b".as_slice();
        assert!(!matches(pattern, &[b'a'; 2000], Case::Keep));
    }
}
