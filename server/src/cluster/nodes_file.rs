//! The text of `cluster-config-file`, `nodes.conf`: what a node knows of its cluster, in the format of
//! Redis.
//!
//! ```text
//! <id> <ip>:<port>@<bus port>,<hostname>,tls-port=0,shard-id=<id> <flags> <master> <ping> <pong> \
//!     <epoch> <link> <hash slots> ...
//! vars currentEpoch <n> lastVoteEpoch <n>
//! ```
//!
//! A line is a node; names are 40 letters or digits. Flags are words with commas, `master` is a name or
//! `-`, hash slots are numbers or ranges `<first>-<last>`; one on its way to or from another node
//! stands in brackets. What follows the address came in later versions of Redis, and may be absent.

use std::fmt::Write;

use engine::HASH_SLOTS;

/// Characters of a node's name.
const ID_LEN: usize = 40;

/// Words of a node's line before its hash slots.
const WORDS_MIN: usize = 8;

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodesFile {
    /// The nodes, in the order of their lines.
    pub nodes: Vec<Node>,
    /// The latest epoch of the cluster.
    pub current_epoch: u64,
    /// The latest epoch in which this node has voted.
    pub last_vote_epoch: u64,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub id: String,
    /// `<ip>:<port>@<bus port>,<hostname>`; only written, since it follows from the configuration.
    pub address: String,
    /// The name that it shares with its replicas, if it is told.
    pub shard_id: Option<String>,
    /// It is the one whose file this is.
    pub is_own: bool,
    /// It follows another node.
    pub is_replica: bool,
    /// Its epoch.
    pub epoch: u64,
    /// The hash slots that it serves, first and last of each range.
    pub ranges: Vec<(usize, usize)>,
    /// Hash slots are on their way between it and another node.
    pub is_migrating: bool,
}

/// Why a text is not of this format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Number of the line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl NodesFile {
    /// Reads a text.
    ///
    /// # Errors
    /// The first line that is wrong.
    pub fn parse(text: &[u8]) -> Result<Self, Fault> {
        let mut file = Self::default();
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            file.line(line).map_err(|reason| Fault { line: index + 1, reason })?;
        }
        Ok(file)
    }

    fn line(&mut self, line: &[u8]) -> Result<(), &'static str> {
        let line = std::str::from_utf8(line).map_err(|_| "it is no text")?;
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words.first() {
            None => Ok(()),
            Some(word) if word.eq_ignore_ascii_case("vars") => self.variables(&words[1..]),
            Some(_) if words.len() < WORDS_MIN => Err("it has too few words"),
            Some(_) => {
                let node = node(&words)?;
                if self.nodes.iter().any(|other| other.id == node.id) {
                    return Err("the node has a line before");
                }
                self.nodes.push(node);
                Ok(())
            }
        }
    }

    fn variables(&mut self, words: &[&str]) -> Result<(), &'static str> {
        let (pairs, rest) = words.as_chunks::<2>();
        if !rest.is_empty() {
            return Err("a variable has no value");
        }
        for [name, value] in pairs {
            match name.to_ascii_lowercase().as_str() {
                "currentepoch" => self.current_epoch = number(value)?,
                "lastvoteepoch" => self.last_vote_epoch = number(value)?,
                // Redis passes over those of later versions, too.
                _ => {}
            }
        }
        Ok(())
    }

    /// The text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for node in &self.nodes {
            let own = if node.is_own { "myself," } else { "" };
            let _ = write!(text, "{} {},tls-port=0", node.id, node.address);
            if let Some(shard_id) = &node.shard_id {
                let _ = write!(text, ",shard-id={shard_id}");
            }
            let _ = write!(text, " {own}master - 0 0 {} connected", node.epoch);
            write_ranges(&node.ranges, &mut text);
            text.push('\n');
        }
        let (current, last_vote) = (self.current_epoch, self.last_vote_epoch);
        let _ = writeln!(text, "vars currentEpoch {current} lastVoteEpoch {last_vote}");
        text
    }
}

/// Writes ranges of hash slots, a space before each.
pub fn write_ranges(ranges: &[(usize, usize)], text: &mut String) {
    for (first, last) in ranges {
        let _ = match first == last {
            true => write!(text, " {first}"),
            false => write!(text, " {first}-{last}"),
        };
    }
}

fn node(words: &[&str]) -> Result<Node, &'static str> {
    let mut node = Node { id: id(words[0])?, ..Node::default() };
    address(words[1], &mut node)?;
    for flag in words[2].split(',') {
        match flag.to_ascii_lowercase().as_str() {
            "myself" => node.is_own = true,
            "slave" => node.is_replica = true,
            "master" | "fail?" | "fail" | "handshake" | "noaddr" | "nofailover" | "noflags" => {}
            _ => return Err("it has an unknown flag"),
        }
    }
    if words[3] != "-" {
        id(words[3])?;
        node.is_replica = true;
    }
    node.epoch = number(words[6])?;
    for word in &words[WORDS_MIN..] {
        if word.starts_with('[') {
            node.is_migrating = true;
            continue;
        }
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let range = (slot(first)?, slot(last)?);
        if range.0 > range.1 {
            return Err("a range of hash slots ends before it begins");
        }
        node.ranges.push(range);
    }
    Ok(node)
}

/// Reads an address and what is said of the node behind it.
fn address(word: &str, node: &mut Node) -> Result<(), &'static str> {
    let mut parts = word.split(',');
    let place = parts.next().unwrap_or_default();
    if !place.contains(':') {
        return Err("it has no address");
    }
    node.address = place.to_owned();
    if let Some(hostname) = parts.next() {
        let _ = write!(node.address, ",{hostname}");
    }
    for part in parts {
        match part.split_once('=') {
            Some(("shard-id", value)) => node.shard_id = Some(id(value)?),
            Some(("nodename" | "tcp-port" | "tls-port", _)) => {}
            _ => return Err("it has an unknown field behind the address"),
        }
    }
    Ok(())
}

fn id(word: &str) -> Result<String, &'static str> {
    let is_of_id = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if word.len() != ID_LEN || !word.bytes().all(is_of_id) {
        return Err("a node's name is not 40 letters or digits");
    }
    Ok(word.to_owned())
}

fn number(word: &str) -> Result<u64, &'static str> {
    word.parse().map_err(|_| "an epoch is no number")
}

fn slot(word: &str) -> Result<usize, &'static str> {
    let slot = word.parse().ok().filter(|slot| *slot < HASH_SLOTS);
    slot.ok_or("a hash slot is none")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "c8c265e9cfa262f410bd565839e1b917f1518cbc";
    const SHARD: &str = "402556005e812f9df88bc825ed6195d56444d583";

    fn parse(text: &str) -> Result<NodesFile, Fault> {
        NodesFile::parse(text.as_bytes())
    }

    #[test]
    fn the_file_of_a_redis_is_read_and_written_to_the_byte() {
        let text = format!(
            "{ID} :21210@31210,,tls-port=0,shard-id={SHARD} myself,master - 0 0 0 connected 0-5 7-9 \
             16383\nvars currentEpoch 0 lastVoteEpoch 0\n"
        );
        let file = parse(&text).expect("a file");
        assert_eq!(file.nodes[0].ranges, [(0, 5), (7, 9), (16383, 16383)]);
        assert_eq!(file.nodes[0].shard_id.as_deref(), Some(SHARD));
        assert!(file.nodes[0].is_own && !file.nodes[0].is_replica);
        assert_eq!(file.text(), text);
    }

    #[test]
    fn files_of_older_versions_are_read() {
        let text = format!(
            "\n{ID} 1.2.3.4:6379@16379 myself,master - 0 1 7 connected\nVARS currentepoch 9\n"
        );
        let file = parse(&text).expect("a file");
        assert_eq!((file.nodes[0].epoch, file.current_epoch), (7, 9));
        assert_eq!(file.nodes[0].shard_id, None);
        let more = format!("{SHARD} :1@2 slave,fail? {ID} 0 0 0 connected [5->-{ID}]");
        let file = parse(&more).expect("a file");
        assert!(file.nodes[0].is_replica && file.nodes[0].is_migrating);
        assert_eq!(parse("").expect("an empty file"), NodesFile::default());
    }

    #[test]
    fn what_is_no_nodes_file_is_refused_with_its_line() {
        let line = format!("{ID} :1@2 myself,master - 0 0 0 connected");
        for (text, number, reason) in [
            ("garbage".to_owned(), 1, "it has too few words"),
            (format!("\n{line} 16384"), 2, "a hash slot is none"),
            (format!("{line} 5-3"), 1, "a range of hash slots ends before it begins"),
            (format!("{line}\n{line}"), 2, "the node has a line before"),
            (line.replace("myself", "mine"), 1, "it has an unknown flag"),
            (line.replace(":1@2", "1@2"), 1, "it has no address"),
            (line.replace("@2", "@2,,a=b"), 1, "it has an unknown field behind the address"),
            (line.replace("c8c", "C8C"), 1, "a node's name is not 40 letters or digits"),
            (line.replace("0 0 0 con", "0 0 x con"), 1, "an epoch is no number"),
            ("vars currentEpoch".to_owned(), 1, "a variable has no value"),
        ] {
            assert_eq!(parse(&text), Err(Fault { line: number, reason }), "{text}");
        }
        assert!(NodesFile::parse(b"\xff\xfe a b c d e f g").is_err());
    }

    #[test]
    fn a_cut_or_changed_file_is_read_or_refused() {
        let text = format!(
            "{ID} :1@2,host,tls-port=0,shard-id={SHARD} myself,master - 0 0 3 connected 0-99 7000\n\
             vars currentEpoch 3 lastVoteEpoch 2\n"
        );
        for end in 0..text.len() {
            let _ = NodesFile::parse(&text.as_bytes()[..end]);
            for byte in [0, b' ', b'-', b'[', b',', 0xff] {
                let mut changed = text.clone().into_bytes();
                changed[end] = byte;
                let _ = NodesFile::parse(&changed);
            }
        }
    }
}
