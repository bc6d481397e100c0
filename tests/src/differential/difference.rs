//! What stops a run, and how differences are told apart.

use std::io;

use crate::differential::plan::{Words, name_of};
use crate::differential::reply::{Reply, line_of};

/// The two servers disagree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Which step showed it.
    pub at: usize,
    /// The command, where it is the reply to one.
    pub command: String,
    /// What makes it the same as another one: command and kinds of replies, or what of the state.
    pub signature: String,
    /// Whether a full check showed it, so that the cause lies before.
    pub in_state: bool,
    /// Where it was seen.
    pub place: String,
    /// What the first server says.
    pub left: String,
    /// What the second server says.
    pub right: String,
}

/// Why a run of steps ended early.
#[derive(Debug)]
pub enum Stop {
    /// The servers disagree.
    Difference(Box<Difference>),
    /// They disagree in their state in a way that is known; what follows says nothing.
    Known(String),
    /// After a known difference in the reply to this command their states differ.
    Diverged(String),
    /// Both wait for ever for the answer to this, which is no difference.
    BothWait(String),
    /// One of them does not know a command.
    Unknown {
        /// Which server: 0 or 1.
        side: usize,
        /// The command.
        name: String,
    },
    /// Nothing can be tried any more.
    Broken(String),
}

/// Longest reply that is shown whole.
const SHOWN_MAX: usize = 1500;

impl Difference {
    /// Two replies to a command.
    pub fn of_replies(at: usize, words: &Words, left: &Reply, right: &Reply) -> Self {
        let name = name_of(words);
        let signature = format!("{name}: {} / {}", brief(words, left), brief(words, right));
        Self {
            at,
            command: name,
            signature,
            in_state: false,
            place: line_of(words),
            left: shown(&left.to_string()),
            right: shown(&right.to_string()),
        }
    }

    /// Something that is no pair of replies.
    pub fn of_texts(at: usize, signature: String, place: String, left: &str, right: &str) -> Self {
        let (left, right) = (shown(left), shown(right));
        Self { at, command: String::new(), signature, in_state: false, place, left, right }
    }
}

/// The kind of a reply; where an error repeats a word of the request, `_` stands for it.
fn brief(words: &Words, reply: &Reply) -> String {
    let Reply::Error(text) = reply else { return reply.kind() };
    let text = String::from_utf8_lossy(text);
    let is_repeated = |token: &str| {
        let bare = token.trim_matches(|letter: char| "'`,.:".contains(letter));
        !bare.is_empty() && words.iter().any(|word| word.eq_ignore_ascii_case(bare.as_bytes()))
    };
    let tokens = text.split(' ').map(|token| if is_repeated(token) { "_" } else { token });
    tokens.collect::<Vec<_>>().join(" ")
}

/// A text cut to what a reader bears.
fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}... ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}

/// An error of a connection in words.
pub fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut => "no answer".to_owned(),
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionRefused
        | io::ErrorKind::BrokenPipe => "the connection is closed".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_error_about_another_word_is_the_same_difference() {
        let signature = |member: &str| {
            let words = ["GEOSEARCH", "g", member].map(|word| word.as_bytes().to_vec()).to_vec();
            let left = Reply::Error(b"ERR no member".to_vec());
            let right = Reply::Error(format!("ERR member '{member}' is missing").into_bytes());
            Difference::of_replies(0, &words, &left, &right).signature
        };
        assert_eq!(signature("a"), "GEOSEARCH: ERR no member / ERR member _ is missing");
        assert_eq!(signature("a"), signature("b"));
    }
}
