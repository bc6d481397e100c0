//! When two replies agree.
//!
//! Most must be equal. Where Redis promises no order, answers with the time that passes, or shows
//! how it is built inside, a rule says what may differ and nothing more does. Rules that send
//! something themselves (random choices, iterations, payloads) are in `settle`.

use crate::differential::reply::Reply;

/// How the replies of a command compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Equal.
    Exact,
    /// Elements in any order.
    Unordered,
    /// Texts in their order, which ends at a NUL for Redis.
    Collated,
    /// Pairs in any order: a map, or a flat array of RESP2.
    Pairs,
    /// Of the same kind, whatever they say: sizes in memory.
    Kind,
    /// As many elements, whichever they are.
    Length,
    /// Seconds, or an array of them, that pass.
    Seconds,
    /// Milliseconds, or an array of them, that pass.
    Milliseconds,
    /// Rows of XPENDING: the third column passes.
    Pending,
    /// XINFO: what is named by [`PASSING`] passes, what is named by [`INNER`] is the server's own.
    Details,
    /// OBJECT ENCODING: `embstr` and `raw` are told apart by the full check alone, which knows where
    /// either may be.
    Encoding,
    /// SPOP: members of the other one's set, which both lose.
    Pop,
    /// A random choice that changes nothing.
    Sample,
    /// SCAN and its kin, run until the cursor is 0.
    Scan,
    /// XADD with `*`: one server chooses, the other one is told.
    AutoId,
    /// DUMP: each one restores the other one's payload.
    Dump,
}

impl Rule {
    /// Whether the comparison sends commands itself, so that it fits in no transaction.
    pub fn settles(self) -> bool {
        matches!(self, Self::Pop | Self::Sample | Self::Scan | Self::AutoId | Self::Dump)
    }
}

/// How far apart two clocks may be, in milliseconds.
const APART_MS: i64 = 5000;

/// Fields of XINFO that hold times.
const PASSING: [&str; 4] = ["idle", "inactive", "seen-time", "active-time"];

/// Fields of XINFO that tell of the nodes inside.
const INNER: [&str; 2] = ["radix-tree-keys", "radix-tree-nodes"];

/// From here on an integer in XINFO is a Unix time in milliseconds.
const UNIX_MS_MIN: i64 = 1_000_000_000_000;

/// Whether two replies agree.
pub fn agree(rule: Rule, left: &Reply, right: &Reply) -> bool {
    left == right
        || match rule {
            Rule::Unordered => unordered(left) == unordered(right),
            Rule::Collated => length(left) == length(right) && collated(left) == collated(right),
            Rule::Pairs => pairs(left) == pairs(right),
            Rule::Kind => left.kind() == right.kind() && !left.is_error(),
            Rule::Length => length(left).is_some() && length(left) == length(right),
            Rule::Seconds => near_all(left, right, APART_MS / 1000),
            Rule::Milliseconds => near_all(left, right, APART_MS),
            Rule::Pending => rows_agree(left, right),
            Rule::Details => details_agree(left, right),
            Rule::Encoding => short_string(left) && short_string(right) || stays_small(left, right),
            _ => false,
        }
}

fn length(reply: &Reply) -> Option<usize> {
    reply.elements().map(<[Reply]>::len)
}

/// The elements up to their NULs.
fn collated(reply: &Reply) -> Vec<Vec<u8>> {
    let cut = |text: Vec<u8>| text.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
    reply.scalars().into_iter().map(cut).collect()
}

/// Whether the second server, Osmia, still has in the small form what Redis put into a large one: what
/// a refused command leaves alone, a list that shrank, and fields that got no time (see "By design" in
/// docs/DIFFERENCES.md).
pub fn stays_small(left: &Reply, right: &Reply) -> bool {
    let large: [&[u8]; 3] = [b"listpackex", b"quicklist", b"skiplist"];
    left.bytes().is_some_and(|name| large.contains(&&name[..]))
        && right.bytes().as_deref() == Some(b"listpack")
}

/// Whether it is one of the two encodings of strings that are no integers.
pub fn short_string(reply: &Reply) -> bool {
    *reply == Reply::Bulk(b"embstr".to_vec()) || *reply == Reply::Bulk(b"raw".to_vec())
}

/// The reply with its elements in order, those within them as well.
pub fn unordered(reply: &Reply) -> Reply {
    let sorted = |elements: &[Reply]| {
        let mut elements = elements.to_vec();
        elements.sort();
        elements
    };
    match reply {
        Reply::Array(elements) => Reply::Array(sorted(elements)),
        Reply::Set(elements) => Reply::Set(sorted(elements)),
        Reply::Map(pairs) => {
            let mut pairs = pairs.clone();
            pairs.sort();
            Reply::Map(pairs)
        }
        other => other.clone(),
    }
}

/// The reply with its pairs in order.
pub fn pairs(reply: &Reply) -> Reply {
    match reply {
        Reply::Array(elements) if elements.len() % 2 == 0 => {
            let mut pairs: Vec<&[Reply]> = elements.chunks(2).collect();
            pairs.sort();
            Reply::Array(pairs.concat())
        }
        other => unordered(other),
    }
}

/// Two times of which neither is a sign (-1, -2), not too far apart.
fn near(left: i64, right: i64, apart: i64) -> bool {
    left == right || (left >= 0 && right >= 0 && left.abs_diff(right) <= apart.unsigned_abs())
}

fn near_all(left: &Reply, right: &Reply, apart: i64) -> bool {
    match (left, right) {
        (Reply::Integer(left), Reply::Integer(right)) => near(*left, *right, apart),
        (Reply::Array(left), Reply::Array(right)) => {
            let mut both = left.iter().zip(right);
            left.len() == right.len() && both.all(|(left, right)| near_all(left, right, apart))
        }
        (left, right) => left == right,
    }
}

fn rows_agree(left: &Reply, right: &Reply) -> bool {
    let (Reply::Array(left), Reply::Array(right)) = (left, right) else { return false };
    let row_agrees = |(left, right): (&Reply, &Reply)| match (left, right) {
        (Reply::Array(left), Reply::Array(right)) if left.len() == 4 && right.len() == 4 => {
            left[..2] == right[..2]
                && left[3] == right[3]
                && near_all(&left[2], &right[2], APART_MS)
        }
        (left, right) => left == right,
    };
    left.len() == right.len() && left.iter().zip(right).all(row_agrees)
}

/// Walks both; a name before a value, in a map or a flat array, decides what may differ.
fn details_agree(left: &Reply, right: &Reply) -> bool {
    match (left, right) {
        (Reply::Array(left), Reply::Array(right)) => {
            let value_agrees = |index: usize| {
                let name = index.checked_sub(1).map(|before| &left[before]);
                value_agrees(name, &left[index], &right[index])
            };
            left.len() == right.len() && (0..left.len()).all(value_agrees)
        }
        (Reply::Map(left), Reply::Map(right)) => {
            let pair_agrees =
                |((name, value), (other_name, other)): (&(Reply, Reply), &(Reply, Reply))| {
                    name == other_name && value_agrees(Some(name), value, other)
                };
            left.len() == right.len() && left.iter().zip(right).all(pair_agrees)
        }
        (Reply::Integer(left), Reply::Integer(right)) => {
            left == right || (*left > UNIX_MS_MIN && near(*left, *right, APART_MS))
        }
        (left, right) => left == right,
    }
}

fn value_agrees(name: Option<&Reply>, left: &Reply, right: &Reply) -> bool {
    let named = |names: &[&str]| match name {
        Some(Reply::Bulk(name)) => names.iter().any(|known| known.as_bytes() == name.as_slice()),
        _ => false,
    };
    if named(&INNER) {
        return left.integer().is_some() && right.integer().is_some();
    }
    match (left, right) {
        (Reply::Integer(left), Reply::Integer(right)) if named(&PASSING) => {
            near(*left, *right, APART_MS)
        }
        (left, right) => details_agree(left, right),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Reply {
        let bytes = text.replace(' ', "\r\n") + "\r\n";
        let (reply, len) = Reply::read(bytes.as_bytes()).expect("a reply").expect("a whole reply");
        assert_eq!(len, bytes.len(), "{text}");
        reply
    }

    fn check(rule: Rule, left: &str, right: &str, expected: bool) {
        assert_eq!(agree(rule, &read(left), &read(right)), expected, "{rule:?}: {left} / {right}");
        assert_eq!(agree(rule, &read(right), &read(left)), expected, "{rule:?}: {right} / {left}");
    }

    #[test]
    fn order_counts_only_where_it_is_promised() {
        check(Rule::Exact, "*2 :1 :2", "*2 :2 :1", false);
        check(Rule::Unordered, "*2 :1 :2", "*2 :2 :1", true);
        check(Rule::Unordered, "*2 :1 :1", "*2 :2 :1", false);
        check(Rule::Unordered, "~2 :1 :2", "*2 :2 :1", false);
        check(Rule::Collated, "*2 $1 a $2 \0b", "*2 $1 a $3 \0cd", true);
        check(Rule::Collated, "*2 $1 a $1 b", "*2 $1 b $1 a", false);
        check(Rule::Pairs, "*4 :1 :2 :3 :4", "*4 :3 :4 :1 :2", true);
        check(Rule::Pairs, "*4 :1 :2 :3 :4", "*4 :3 :2 :1 :4", false);
        check(Rule::Pairs, "%2 :1 :2 :3 :4", "%2 :3 :4 :1 :2", true);
    }

    #[test]
    fn times_pass_but_signs_do_not() {
        check(Rule::Milliseconds, ":100000", ":100020", true);
        check(Rule::Milliseconds, ":100000", ":200000", false);
        check(Rule::Milliseconds, ":-1", ":-2", false);
        check(Rule::Milliseconds, ":-1", ":3", false);
        check(Rule::Seconds, "*2 :-2 :100", "*2 :-2 :101", true);
        check(Rule::Seconds, ":100", ":110", false);
        check(Rule::Exact, ":100", ":101", false);
    }

    #[test]
    fn only_what_passes_may_differ_in_reports() {
        let row = |idle: i64, count: i64| format!("*1 *4 $3 1-1 $2 c1 :{idle} :{count}");
        check(Rule::Pending, &row(5, 1), &row(9, 1), true);
        check(Rule::Pending, &row(5, 1), &row(5, 2), false);
        check(Rule::Details, "*4 $4 idle :5 $5 count :1", "*4 $4 idle :7 $5 count :1", true);
        check(Rule::Details, "*4 $4 idle :5 $5 count :1", "*4 $4 idle :5 $5 count :2", false);
        check(Rule::Details, "%1 $15 radix-tree-keys :5", "%1 $15 radix-tree-keys :7", true);
        check(Rule::Details, ":1700000000000", ":1700000000100", true);
    }

    #[test]
    fn encodings_of_strings_that_are_no_integers_are_left_to_the_full_check() {
        check(Rule::Encoding, "$3 raw", "$6 embstr", true);
        check(Rule::Encoding, "$3 raw", "$3 int", false);
    }
}
