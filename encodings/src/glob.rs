//! Glob patterns as KEYS, SCAN MATCH and CONFIG GET take them.
//!
//! `*` any bytes, `?` one byte, `[abc]`, `[a-z]`, `[^a]` one byte of a class, `\x` the byte `x`.
//! A class that is not closed ends with the pattern. The rules are Redis's to the corners:
//! ranges of a class compare signed bytes; a backslash in a class escapes from the case being
//! ignored as well; of all patterns only the empty one and a lone star match the empty text; and
//! a pattern with too many stars matches nothing.
//!
//! Matching remembers the last star only, so its time is at most the product of both lengths.

/// Whether letters match in either case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Letters match themselves.
    Keep,
    /// Letters match in either case.
    Ignore,
}

/// How many stars may have something other than stars behind them.
const STARS_MAX: usize = 1000;

/// Whether `text` matches `pattern` as a whole.
pub fn matches(pattern: &[u8], text: &[u8], case: Case) -> bool {
    if text.is_empty() {
        return pattern.is_empty() || pattern == b"*";
    }
    let mut stars = 0;
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
            stars += 1;
            if stars > STARS_MAX {
                return false;
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
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', rest @ ..] => {
            let (matched, len) = class(rest, byte, case);
            matched.then_some(len + 1)
        }
        [b'\\', escaped, ..] => case.same(*escaped, byte).then_some(2),
        [literal, ..] => case.same(*literal, byte).then_some(1),
        [] => None,
    }
}

/// Matches a class behind its bracket; returns the length of the class, closing bracket with it.
fn class(class: &[u8], byte: u8, case: Case) -> (bool, usize) {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut matched = false;
    loop {
        match &class[at..] {
            [] => break,
            [b'\\', escaped, ..] => {
                matched |= *escaped == byte;
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [low, b'-', high, ..] => {
                matched |= in_range(*low, *high, byte, case);
                at += 3;
            }
            [literal, ..] => {
                matched |= case.same(*literal, byte);
                at += 1;
            }
        }
    }
    (matched != negated, at)
}

/// Whether a byte lies between two others, in either order. The order is settled before the case
/// is dropped, so that `[Z-a]`, which turns into `[z-a]`, matches nothing then.
fn in_range(one: u8, other: u8, byte: u8, case: Case) -> bool {
    let (one, other) = (one.cast_signed(), other.cast_signed());
    let (low, high) = (one.min(other).cast_unsigned(), one.max(other).cast_unsigned());
    let range = case.fold(low).cast_signed()..=case.fold(high).cast_signed();
    range.contains(&case.fold(byte).cast_signed())
}

impl Case {
    fn fold(self, byte: u8) -> u8 {
        match self {
            Case::Keep => byte,
            Case::Ignore => byte.to_ascii_lowercase(),
        }
    }

    fn same(self, one: u8, other: u8) -> bool {
        self.fold(one) == self.fold(other)
    }
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
        check("**", "", false);
        check("[^", "a", true);
        check("[", "a", false);
        check("[a-]", "]", true);
        check("a***", "a", true);
        check("a***", "b", false);
    }

    #[test]
    fn ranges_compare_signed_bytes() {
        let check = |pattern: &[u8], byte: u8, expected| {
            assert_eq!(matches(pattern, &[byte], Case::Keep), expected, "{pattern:?} {byte}");
        };
        check(b"[\xe9-b]", b'a', true);
        check(b"[\xe9-b]", 0xff, true);
        check(b"[\xe9-b]", b'c', false);
        check(b"[\xe9-b]", 0xe8, false);
    }

    #[test]
    fn too_many_stars_match_nothing() {
        let most = b"*a".repeat(STARS_MAX);
        assert!(matches(&most, &[b'a'; STARS_MAX], Case::Keep));
        assert!(matches(&[&most, b"*".as_slice()].concat(), &[b'a'; STARS_MAX], Case::Keep));
        let more = b"*a".repeat(STARS_MAX + 1);
        assert!(!matches(&more, &[b'a'; STARS_MAX + 1], Case::Keep));
    }

    #[test]
    fn case_can_be_ignored() {
        assert!(matches(b"H[A-C]LLO\\X", b"hbllox", Case::Ignore));
        assert!(!matches(b"H", b"h", Case::Keep));
        assert!(!matches(b"[\\H]", b"h", Case::Ignore));
        assert!(!matches(b"[Z-a]", b"z", Case::Ignore));
    }

    #[test]
    fn many_stars_do_not_take_for_ever() {
        let pattern = b"a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b".as_slice();
        assert!(!matches(pattern, &[b'a'; 2000], Case::Keep));
    }
}
