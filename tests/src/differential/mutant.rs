//! Faults on purpose: the second server is sent something else than the first.
//!
//! A tester that finds nothing proves nothing. Each mutant is a mistake as a server could make it:
//! an option ignored, an order reversed, a threshold off by one. Some show in a reply, others only
//! in the full check.

use crate::differential::plan::Words;

/// A mistake.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    /// Its name on the command line.
    pub name: &'static str,
    /// The family that shall find it.
    pub family: &'static str,
    change: fn(&mut Words),
}

/// All mutants.
pub const MUTANTS: [Mutant; 19] = [
    mutant("set-ignores-nx", "string", |words| drop_option(words, b"SET", b"NX")),
    mutant("incr-by-two", "string", |words| {
        if is(words, b"INCR") && words.len() == 2 {
            *words = vec![b"INCRBY".to_vec(), words[1].clone(), b"2".to_vec()];
        }
    }),
    mutant("expire-is-forgotten", "string", |words| {
        if is(words, b"PSETEX") && words.len() == 4 {
            *words = vec![b"SET".to_vec(), words[1].clone(), words[3].clone()];
        }
    }),
    mutant("bitop-or-for-xor", "bitmap", |words| replace(words, b"BITOP", b"XOR", b"OR")),
    mutant("pfadd-loses-an-element", "hyperloglog", |words| lose_last(words, b"PFADD", 4)),
    mutant("copy-always-replaces", "keys", |words| {
        if is(words, b"COPY") && !words.iter().any(|word| word == b"REPLACE") {
            words.push(b"REPLACE".to_vec());
        }
    }),
    mutant("expire-gt-as-lt", "keys", |words| replace(words, b"EXPIREAT", b"GT", b"LT")),
    mutant("linsert-before-after", "list", |words| replace(words, b"LINSERT", b"BEFORE", b"AFTER")),
    mutant("list-node-is-larger", "list", |words| threshold(words, b"list-max-listpack-size")),
    mutant("blmove-right-for-left", "list", |words| replace(words, b"BLMOVE", b"LEFT", b"RIGHT")),
    mutant("srem-loses-a-member", "set", |words| lose_last(words, b"SREM", 4)),
    mutant("intset-threshold-off-by-one", "set", |words| {
        threshold(words, b"set-max-intset-entries")
    }),
    mutant("hsetex-ignores-fnx", "hash", |words| {
        drop_option(words, b"HSETEX", b"FNX");
    }),
    mutant("hash-threshold-off-by-one", "hash", |words| {
        threshold(words, b"hash-max-listpack-entries")
    }),
    mutant("zadd-ignores-gt", "zset", |words| drop_option(words, b"ZADD", b"GT")),
    mutant("geosearch-descends", "geo", |words| replace(words, b"GEOSEARCH", b"ASC", b"DESC")),
    mutant("xack-loses-an-id", "stream", |words| lose_last(words, b"XACK", 5)),
    mutant("sort-forgets-alpha", "sort", |words| drop_option(words, b"SORT", b"ALPHA")),
    mutant("scan-matches-all", "scan", |words| replace(words, b"SSCAN", b"*1*", b"*")),
];

const fn mutant(name: &'static str, family: &'static str, change: fn(&mut Words)) -> Mutant {
    Mutant { name, family, change }
}

impl Mutant {
    /// The mutant of this name.
    pub fn named(name: &str) -> Option<Self> {
        MUTANTS.into_iter().find(|mutant| mutant.name == name)
    }

    /// What is sent instead.
    pub fn apply(&self, words: &Words) -> Words {
        let mut words = words.clone();
        (self.change)(&mut words);
        words
    }
}

fn is(words: &Words, name: &[u8]) -> bool {
    words.first().is_some_and(|word| word == name)
}

fn drop_option(words: &mut Words, name: &[u8], option: &[u8]) {
    if is(words, name) {
        words.retain(|word| word != option);
    }
}

fn replace(words: &mut Words, name: &[u8], old: &[u8], new: &[u8]) {
    if is(words, name) {
        words.iter_mut().filter(|word| *word == old).for_each(|word| *word = new.to_vec());
    }
}

fn lose_last(words: &mut Words, name: &[u8], len_min: usize) {
    if is(words, name) && words.len() >= len_min {
        words.pop();
    }
}

/// Sets a threshold one higher than asked.
fn threshold(words: &mut Words, directive: &[u8]) {
    if is(words, b"CONFIG") && words.get(2).is_some_and(|word| word == directive) {
        let value = String::from_utf8_lossy(&words[3]).parse().unwrap_or(0);
        words[3] = (value + 1_i64).to_string().into_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differential::families;

    #[test]
    fn mutants_change_their_command_and_no_other() {
        let words = |text: &str| -> Words {
            text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
        };
        let nx = Mutant::named("set-ignores-nx").expect("a mutant");
        assert_eq!(nx.apply(&words("SET a b NX")), words("SET a b"));
        assert_eq!(nx.apply(&words("ZADD a NX 1 b")), words("ZADD a NX 1 b"));
        let intset = Mutant::named("intset-threshold-off-by-one").expect("a mutant");
        let asked = words("CONFIG SET set-max-intset-entries 4");
        assert_eq!(intset.apply(&asked), words("CONFIG SET set-max-intset-entries 5"));
    }

    #[test]
    fn mutants_belong_to_families() {
        for mutant in MUTANTS {
            assert!(families::named(mutant.family).is_some(), "{}", mutant.name);
        }
    }
}
