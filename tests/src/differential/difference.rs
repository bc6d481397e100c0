//! What stops a run, and how differences are told apart.

use std::io;

use crate::differential::plan::{Words, name_of};
use crate::differential::reply::{Reply, line_of};

/// The two servers disagree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Which step showed it.
    pub at: usize,
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
        let signature = format!("{name}: {} / {}", brief(left), brief(right));
        Self {
            at,
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
        Self { at, signature, in_state: false, place, left, right }
    }
}

/// The kind of a reply, without the words of the request that an error repeats.
fn brief(reply: &Reply) -> String {
    let kind = reply.kind();
    kind.split('\'').next().unwrap_or_default().trim_end().to_owned()
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
