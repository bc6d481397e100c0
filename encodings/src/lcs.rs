//! The longest common subsequence of two byte strings.
//!
//! With `L(i, j)` the length for the first `i` bytes of `a` and the first `j` of `b`, a row of the
//! table over `j` grows by 0 or 1 from one `j` to the next; so a row is kept as bits, and 64 of
//! them are worked out at once (Hyyrö, "Bit-Parallel LCS-length Computation Revisited"):
//!
//! ```text
//! flat      a bit for each j, set where L(i, j) = L(i, j - 1); all set in row 0
//! matches   a bit for each j, set where b[j] is the byte of a
//! flat = (flat + (flat & matches)) | (flat & !matches)
//! ```
//!
//! The bits of all rows are what is needed to walk back as over the whole table: where the bytes
//! differ, `L(i - 1, j) > L(i, j - 1)` is the same as a growth at `j` of row `i`. They take a
//! thirty-second of the table's room.

/// Bytes that are the same in both strings, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// Where they begin in the first string.
    pub a: usize,
    /// Where they begin in the second.
    pub b: usize,
    /// How many.
    pub len: usize,
}

/// A step of the walk back: both strings give up a byte, or one of them does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Both,
    A,
    B,
}

/// Length of the longest common subsequence.
pub fn len(a: &[u8], b: &[u8]) -> usize {
    let matches = Matches::new(a, b);
    let mut row = matches.first_row();
    a.iter().for_each(|byte| matches.advance(&mut row, *byte));
    growths(&row)
}

/// The longest common subsequence.
pub fn subsequence(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut found = Vec::new();
    walk_back(a, b, |step, i, _| {
        if step == Step::Both {
            found.push(a[i - 1]);
        }
    });
    found.reverse();
    found
}

/// Length of the longest common subsequence and the matches that it consists of, the last first.
pub fn matches(a: &[u8], b: &[u8]) -> (usize, Vec<Match>) {
    let mut found: Vec<Match> = Vec::new();
    let mut open = false;
    let len = walk_back(a, b, |step, i, j| {
        if step != Step::Both {
            open = false;
            return;
        }
        match found.last_mut() {
            Some(last) if open => *last = Match { a: i - 1, b: j - 1, len: last.len + 1 },
            _ => found.push(Match { a: i - 1, b: j - 1, len: 1 }),
        }
        open = true;
    });
    (len, found)
}

/// Walks from the ends of the strings to where one begins and tells each step, with the lengths of
/// what was left before it. Answers the length of the longest common subsequence.
fn walk_back(a: &[u8], b: &[u8], mut tell: impl FnMut(Step, usize, usize)) -> usize {
    let matches = Matches::new(a, b);
    let words = matches.words();
    let mut row = matches.first_row();
    let mut rows = Vec::with_capacity(words * a.len());
    for byte in a {
        matches.advance(&mut row, *byte);
        rows.extend_from_slice(&row);
    }
    let (mut i, mut j) = (a.len(), b.len());
    while i > 0 && j > 0 {
        let step = if a[i - 1] == b[j - 1] {
            Step::Both
        } else {
            let word = rows[(i - 1) * words + (j - 1) / 64];
            if word >> ((j - 1) % 64) & 1 == 0 { Step::A } else { Step::B }
        };
        tell(step, i, j);
        i -= usize::from(step != Step::B);
        j -= usize::from(step != Step::A);
    }
    growths(&row)
}

/// How often a row grows. Bits behind the end of `b` match nothing and stay set.
fn growths(row: &[u64]) -> usize {
    row.iter().map(|word| word.count_zeros() as usize).sum()
}

/// Where each byte of `a` stands in `b`.
struct Matches {
    /// Number of the row of bits for each byte.
    rows: [u8; 256],
    bits: Vec<u64>,
    words: usize,
}

impl Matches {
    fn new(a: &[u8], b: &[u8]) -> Self {
        let words = b.len().div_ceil(64);
        let mut rows = [None; 256];
        let mut distinct = 0;
        for byte in a {
            let row = &mut rows[usize::from(*byte)];
            if row.is_none() {
                *row = Some(distinct as u8);
                distinct += 1;
            }
        }
        let mut bits = vec![0; words * distinct];
        for (j, byte) in b.iter().enumerate() {
            if let Some(row) = rows[usize::from(*byte)] {
                bits[usize::from(row) * words + j / 64] |= 1 << (j % 64);
            }
        }
        Self { rows: rows.map(Option::unwrap_or_default), bits, words }
    }

    fn words(&self) -> usize {
        self.words
    }

    fn first_row(&self) -> Vec<u64> {
        vec![u64::MAX; self.words]
    }

    /// Goes on to the row of one more byte of `a`.
    fn advance(&self, row: &mut [u64], byte: u8) {
        let start = usize::from(self.rows[usize::from(byte)]) * self.words;
        let mut carry = false;
        for (flat, matches) in row.iter_mut().zip(&self.bits[start..start + self.words]) {
            let (sum, first) = flat.overflowing_add(*flat & matches);
            let (sum, second) = sum.overflowing_add(u64::from(carry));
            carry = first || second;
            *flat = sum | *flat & !matches;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table as it stands in textbooks, and the walk over it.
    fn model(a: &[u8], b: &[u8]) -> Vec<u8> {
        let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
        for i in 1..=a.len() {
            for j in 1..=b.len() {
                table[i][j] = if a[i - 1] == b[j - 1] {
                    table[i - 1][j - 1] + 1
                } else {
                    table[i - 1][j].max(table[i][j - 1])
                };
            }
        }
        let (mut i, mut j, mut found) = (a.len(), b.len(), Vec::new());
        while i > 0 && j > 0 {
            if a[i - 1] == b[j - 1] {
                found.push(a[i - 1]);
                (i, j) = (i - 1, j - 1);
            } else if table[i - 1][j] > table[i][j - 1] {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        found.reverse();
        found
    }

    fn check(a: &[u8], b: &[u8]) {
        let expected = model(a, b);
        assert_eq!(subsequence(a, b), expected);
        assert_eq!(len(a, b), expected.len());
        let (total, found) = matches(a, b);
        assert_eq!(total, expected.len());
        let text: Vec<u8> =
            found.iter().rev().flat_map(|at| &a[at.a..at.a + at.len]).copied().collect();
        assert_eq!(text, expected);
        assert!(found.iter().all(|at| a[at.a..at.a + at.len] == b[at.b..at.b + at.len]));
    }

    #[test]
    fn agrees_with_the_table() {
        check(b"", b"");
        check(b"a", b"");
        check(b"", b"a");
        check(b"ohmytext", b"mynewtext");
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 33) % below
        };
        for round in 0..if cfg!(miri) { 5 } else { 300 } {
            let letters = [2, 4, 30, 256][round % 4];
            let (a_len, b_len) = (random(150), random(300));
            let mut text = |len| (0..len).map(|_| random(letters) as u8).collect::<Vec<_>>();
            let (a, b) = (text(a_len), text(b_len));
            check(&a, &b);
        }
    }

    #[test]
    fn matches_come_from_the_end() {
        let (len, found) = matches(b"ohmytext", b"mynewtext");
        let text = Match { a: 4, b: 5, len: 4 };
        assert_eq!((len, found), (6, vec![text, Match { a: 2, b: 0, len: 2 }]));
    }
}
