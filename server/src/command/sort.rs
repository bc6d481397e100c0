//! SORT and SORT_RO: elements of a list, a set or a sorted set in the order of their own values or
//! of values at keys made from them.
//!
//! All texts that are compared lie one after another in one buffer, and what is sorted are pairs of
//! a number and a position: the number is the score, or the first bytes of a text, made so that
//! numbers order as they do. Texts are looked at only where two numbers are equal. With LIMIT the
//! range that is wanted is selected first, and only that is sorted.

use std::cmp::Ordering;
use std::ops::Range;

use encodings::integer::parse_i64;
use engine::{Event, Key, ListDraft, OpError, StringValue, Value, ValueType};

use super::args::Args;
use super::dispatch::{CommandCtx, CommandResult};
use super::error::{CommandError, NOT_AN_INTEGER, SYNTAX, c_string};
use super::spec::{Command, Group, KeySpec, Keyword, Reach, acl, flag, key_flag as key};
use super::string::answer_string;
use crate::conn::Client;
use crate::input::Needs;
use crate::keyspace::{Keyspace, ShardSet, shard_of};

const READ: KeySpec = KeySpec::one(1, key::RO | key::ACCESS);
const MADE: KeySpec = KeySpec::computed(key::RO | key::ACCESS).notes(
    "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the \
     content of the key we sort",
);
const TARGET: KeySpec = KeySpec::behind(STORE, 2, key::OW | key::UPDATE).notes(
    "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear anywhere \
     in the argument array",
);
const STORE: Keyword = Keyword {
    word: "store",
    options: &[("limit", 2), ("get", 1), ("by", 1)],
    reach: Reach::NextUntold,
};

const CATEGORIES: u32 = acl::SET | acl::SORTEDSET | acl::LIST | acl::DANGEROUS;
const COST: &str = "O(N+M*log(M)) with the elements of the value and those answered; O(N) where \
                    they are not sorted";

/// The rows of this family.
pub const COMMANDS: &[Command] = &[
    row("sort", flag::WRITE | flag::DENYOOM, sort, &[READ, MADE, TARGET]).docs(
        Group::Generic,
        "1.0.0",
        COST,
        "Sorts the elements of a list, a set or a sorted set, and may store the result.",
    ),
    row("sort_ro", flag::READONLY, sort_ro, &[READ, MADE]).docs(
        Group::Generic,
        "7.0.0",
        COST,
        "Sorts the elements of a list, a set or a sorted set.",
    ),
];

const fn row(
    name: &'static str,
    flags: u32,
    run: super::spec::Handler,
    keys: &'static [KeySpec],
) -> Command {
    Command::new(name, -2, flags | flag::MOVABLE_KEYS, run).keys(keys).acl(CATEGORIES).placed(place)
}

/// How a key or a value is made from an element.
#[derive(Clone, Copy)]
enum Pattern<'a> {
    /// The element itself.
    Element,
    /// A text without `*`, at which there is never a value.
    Constant,
    /// A key with the element in its middle, or a field of the hash there.
    Key { before: &'a [u8], after: &'a [u8], field: Option<&'a [u8]> },
}

impl<'a> Pattern<'a> {
    fn parse(text: &'a [u8]) -> Self {
        // Redis looks for its signs up to a NUL.
        let shown = c_string(text);
        if shown == b"#" {
            return Self::Element;
        }
        let Some(star) = memchr::memchr(b'*', shown) else { return Self::Constant };
        let (before, after) = (&text[..star], &text[star + 1..]);
        let arrow = memchr::memmem::find(&shown[star + 1..], b"->");
        match arrow.filter(|arrow| star + 1 + arrow + 2 < shown.len()) {
            Some(arrow) => {
                Self::Key { before, after: &after[..arrow], field: Some(&after[arrow + 2..]) }
            }
            None => Self::Key { before, after, field: None },
        }
    }

    /// Calls `f` with the value that belongs to an element.
    fn look_up<R>(
        &self,
        element: &[u8],
        keyspace: &mut Keyspace,
        db: usize,
        name: &mut Vec<u8>,
        f: impl FnOnce(Option<StringValue<'_>>) -> R,
    ) -> R {
        let Self::Key { before, after, field } = *self else {
            return f(matches!(self, Self::Element).then_some(StringValue::Bytes(element)));
        };
        name.clear();
        [before, element, after].iter().for_each(|part| name.extend_from_slice(part));
        let key = keyspace.key(name);
        let partition = keyspace.of(&key);
        f(match field {
            // A value of another type is none.
            None => partition.get(db, &key).ok().flatten(),
            Some(field) => {
                let hash = partition.hash(db, &key).ok().flatten();
                hash.and_then(|hash| hash.get(field)).map(|member| member.value)
            }
        })
    }
}

/// The hash slot of all keys that a pattern may stand for, if it is certain to be one.
fn slot_of_pattern(text: &[u8]) -> Option<u16> {
    let Some(sign) = text.iter().position(|byte| b"*?[\\".contains(byte)) else {
        return Some(engine::hash_slot(text));
    };
    // A hash tag in front of the first sign is in all of them.
    let fixed = &text[..sign];
    let open = memchr::memchr(b'{', fixed)?;
    let close = memchr::memchr(b'}', &fixed[open..])?;
    (close > 1).then(|| engine::hash_slot(fixed))
}

/// The options of SORT.
#[derive(Default)]
struct SortArgs<'a> {
    is_descending: bool,
    is_alpha: bool,
    /// First element and number of elements; a negative number means all.
    limit: Option<(i64, i64)>,
    by: Option<Pattern<'a>>,
    /// BY names a constant: nothing is sorted.
    keeps_order: bool,
    get: Vec<Pattern<'a>>,
    /// Index of the key that gets the result.
    store: Option<usize>,
    /// Texts of the patterns that stand for keys.
    patterns: Vec<&'a [u8]>,
}

impl<'a> SortArgs<'a> {
    /// Reads the options. In a cluster, all keys must have the hash slot `slot`.
    fn parse(args: Args<'a>, may_store: bool, slot: Option<u16>) -> Result<Self, CommandError> {
        const BY_DENIED: CommandError = CommandError::new(
            "ERR BY option of SORT denied in Cluster mode when keys formed by the pattern may be in \
             different slots.",
        );
        const GET_DENIED: CommandError = CommandError::new(
            "ERR GET option of SORT denied in Cluster mode when keys formed by the pattern may be \
             in different slots.",
        );
        let is_elsewhere = |text: &[u8]| slot.is_some() && slot_of_pattern(text) != slot;
        let mut parsed = Self::default();
        let mut cursor = args.cursor(2);
        while cursor.remaining() > 0 {
            if cursor.accept("asc") {
                parsed.is_descending = false;
            } else if cursor.accept("desc") {
                parsed.is_descending = true;
            } else if cursor.accept("alpha") {
                parsed.is_alpha = true;
            } else if cursor.remaining() > 2
                && let Some(start) = cursor.accept_with_value("limit")
            {
                let start = parse_i64(start).ok_or(NOT_AN_INTEGER)?;
                parsed.limit = Some((start, cursor.integer()?));
            } else if may_store && cursor.accept_with_value("store").is_some() {
                parsed.store = Some(cursor.position() - 1);
            } else if let Some(text) = cursor.accept_with_value("by") {
                let pattern = Pattern::parse(text);
                parsed.by = Some(pattern);
                if matches!(pattern, Pattern::Key { .. }) {
                    if is_elsewhere(text) {
                        return Err(BY_DENIED);
                    }
                    parsed.patterns.push(text);
                } else {
                    parsed.keeps_order = true;
                }
            } else if let Some(text) = cursor.accept_with_value("get") {
                let pattern = Pattern::parse(text);
                if !matches!(pattern, Pattern::Element) && is_elsewhere(text) {
                    return Err(GET_DENIED);
                }
                if matches!(pattern, Pattern::Key { .. }) {
                    parsed.patterns.push(text);
                }
                parsed.get.push(pattern);
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(parsed)
    }

    /// The elements that are answered of so many.
    fn window(&self, len: usize) -> Range<usize> {
        let (start, count) = self.limit.unwrap_or((0, -1));
        let start = usize::try_from(start).unwrap_or(0).min(len);
        let count = usize::try_from(count).unwrap_or(len);
        start..start.saturating_add(count).min(len)
    }
}

/// The shares of the keys, and of those that the patterns may stand for.
fn place(args: Args<'_>, _: &Client, shards: usize) -> Needs {
    let of_slot = |slot: u16| Needs::One(shard_of(slot, shards));
    let mut needs = of_slot(engine::hash_slot(args.get(1)));
    // What cannot be read is refused by the handler.
    let Ok(parsed) = SortArgs::parse(args, true, None) else { return needs };
    if let Some(store) = parsed.store {
        needs = needs.unite(of_slot(engine::hash_slot(args.get(store))));
    }
    for text in parsed.patterns {
        let all = || if shards == 1 { Needs::One(0) } else { Needs::Set(ShardSet::all(shards)) };
        needs = needs.unite(slot_of_pattern(text).map_or_else(all, of_slot));
    }
    needs
}

/// Texts, one after another.
#[derive(Default)]
struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Texts {
    fn push(&mut self, text: StringValue<'_>) {
        text.with_text(|text| self.bytes.extend_from_slice(text));
        self.ends.push(self.bytes.len());
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }
}

/// Reads the elements of a value; what is not sorted is read in the order and the range asked for.
fn read(value: Value<'_>, parsed: &SortArgs<'_>) -> Result<Texts, CommandError> {
    let mut texts = Texts::default();
    let backward = parsed.is_descending && parsed.keeps_order;
    let range = |len| if parsed.keeps_order { parsed.window(len) } else { 0..len };
    match value {
        Value::List(list) => {
            let len = list.len();
            let range = range(len);
            if range.is_empty() {
            } else if backward {
                let back = list.iter_back_from(len - 1 - range.start);
                back.take(range.len()).for_each(|element| texts.push(element));
            } else {
                let elements = list.iter_from(range.start).take(range.len());
                elements.for_each(|element| texts.push(element));
            }
        }
        Value::Members(members) if members.value_type() == ValueType::SortedSet => {
            let (len, range) = (members.len(), range(members.len()));
            let ranks = if backward { len - range.end..len - range.start } else { range };
            members.each_ranked(ranks, backward, |member| texts.push(member.name));
        }
        Value::Members(members) if members.value_type() == ValueType::Set => {
            let (range, mut index) = (range(members.len()), 0);
            members.for_each(|member| {
                if range.contains(&index) {
                    texts.push(member.name);
                }
                index += 1;
            });
        }
        _ => return Err(OpError::WrongType.into()),
    }
    Ok(texts)
}

/// An element to be sorted: its place among them, and a number that orders it among most others.
#[derive(Clone, Copy)]
struct Ranked {
    rank: u64,
    index: u32,
}

/// A number that orders as a score does.
fn rank_of_score(score: f64) -> u64 {
    // Zeros are equal.
    let bits = (score + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// A number that orders as a text does, as far as its first bytes tell.
fn rank_of_text(text: &[u8]) -> u64 {
    let mut first = [0; 8];
    let len = text.len().min(8);
    first[..len].copy_from_slice(&text[..len]);
    u64::from_be_bytes(first)
}

/// The score that a text stands for, as Redis reads it: up to a NUL, and nothing is 0.
fn score(value: StringValue<'_>) -> Option<f64> {
    let text = match value {
        StringValue::Int(value) => return Some(value as f64),
        StringValue::Bytes(bytes) => c_string(bytes),
    };
    if text.is_empty() {
        return Some(0.0);
    }
    // Most numbers are integers.
    if let Some(value) = parse_i64(text) {
        return Some(value as f64);
    }
    let score: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some(score).filter(|score| !score.is_nan())
}

/// Puts the range of `elements` that is wanted in order.
fn sort_range(
    elements: &mut [Ranked],
    window: &Range<usize>,
    compare: impl Fn(&Ranked, &Ranked) -> Ordering,
) {
    let mut part = &mut *elements;
    if window.end < part.len() {
        part.select_nth_unstable_by(window.end, &compare);
        part = &mut part[..window.end];
    }
    if window.start > 0 && window.start < part.len() {
        part.select_nth_unstable_by(window.start, &compare);
        part = &mut part[window.start..];
    }
    part.sort_unstable_by(compare);
}

/// A sort of the elements at a key.
struct Sorter<'a> {
    parsed: SortArgs<'a>,
    texts: Texts,
    /// Where keys are put together.
    name: Vec<u8>,
}

impl Sorter<'_> {
    /// Reads the numbers that the elements are sorted by.
    fn by_score(&mut self, ctx: &mut CommandCtx<'_>) -> Result<Vec<Ranked>, CommandError> {
        const NOT_A_SCORE: CommandError =
            CommandError::new("ERR One or more scores can't be converted into double");
        let Self { parsed, texts, name } = self;
        let (mut elements, mut is_sound) = (Vec::with_capacity(texts.len()), true);
        for index in 0..texts.len() {
            let element = texts.get(index);
            let found = match &parsed.by {
                None => score(StringValue::Bytes(element)),
                Some(by) => by.look_up(element, ctx.keyspace, ctx.client.db, name, |value| {
                    value.map_or(Some(0.0), score)
                }),
            };
            is_sound &= found.is_some();
            let rank = rank_of_score(found.unwrap_or(0.0));
            elements.push(Ranked { rank, index: index as u32 });
        }
        if is_sound { Ok(elements) } else { Err(NOT_A_SCORE) }
    }

    /// Reads the texts that the elements are sorted by, where they are not the elements.
    fn weights(&mut self, ctx: &mut CommandCtx<'_>) -> Option<(Texts, Vec<bool>)> {
        let Self { parsed, texts, name } = self;
        let by = parsed.by.as_ref()?;
        let (mut weights, mut found) = (Texts::default(), Vec::with_capacity(texts.len()));
        for index in 0..texts.len() {
            by.look_up(texts.get(index), ctx.keyspace, ctx.client.db, name, |value| {
                found.push(value.is_some());
                weights.push(value.unwrap_or(StringValue::Bytes(b"")));
            });
        }
        Some((weights, found))
    }

    /// Sorts the elements and answers their places; only those in `window` are in order.
    fn sorted(
        &mut self,
        ctx: &mut CommandCtx<'_>,
        window: &Range<usize>,
    ) -> Result<Vec<Ranked>, CommandError> {
        let is_descending = self.parsed.is_descending;
        let turned = |order: Ordering| if is_descending { order.reverse() } else { order };
        let by_rank = |a: &Ranked, b: &Ranked| turned(a.rank.cmp(&b.rank));
        if !self.parsed.is_alpha {
            let mut elements = self.by_score(ctx)?;
            let texts = &self.texts;
            let text = |it: &Ranked| texts.get(it.index as usize);
            sort_range(&mut elements, window, |a, b| {
                by_rank(a, b).then_with(|| turned(text(a).cmp(text(b))))
            });
            return Ok(elements);
        }
        let weights = self.weights(ctx);
        // What is only answered is compared as a locale may ask for, and so up to a NUL.
        let is_stored = self.parsed.store.is_some();
        let weight = |index: usize| {
            let text = match &weights {
                None => Some(self.texts.get(index)),
                Some((texts, found)) => found[index].then(|| texts.get(index)),
            };
            text.map(|text| if is_stored { text } else { c_string(text) })
        };
        let ranked = |index: usize| {
            let rank = rank_of_text(weight(index).unwrap_or_default());
            Ranked { rank, index: index as u32 }
        };
        let mut elements: Vec<Ranked> = (0..self.texts.len()).map(ranked).collect();
        let text = |it: &Ranked| weight(it.index as usize);
        sort_range(&mut elements, window, |a, b| {
            by_rank(a, b)
                .then_with(|| turned(text(a).cmp(&text(b))))
                .then_with(|| a.index.cmp(&b.index))
        });
        Ok(elements)
    }

    fn answer(&mut self, ctx: &mut CommandCtx<'_>, places: impl ExactSizeIterator<Item = usize>) {
        let Self { parsed, texts, name } = self;
        ctx.reply.array(places.len() * parsed.get.len().max(1));
        let (db, reply) = (ctx.client.db, &mut *ctx.reply);
        for place in places {
            let element = texts.get(place);
            if parsed.get.is_empty() {
                reply.bulk(element);
            }
            for pattern in &parsed.get {
                pattern.look_up(element, ctx.keyspace, db, name, |value| {
                    answer_string(reply, value);
                });
            }
        }
    }

    fn store(
        &mut self,
        ctx: &mut CommandCtx<'_>,
        target: &Key<'_>,
        places: impl ExactSizeIterator<Item = usize>,
    ) -> CommandResult {
        let Self { parsed, texts, name } = self;
        let db = ctx.client.db;
        let count = places.len() * parsed.get.len().max(1);
        let mut draft = ListDraft::default();
        for place in places {
            let element = texts.get(place);
            if parsed.get.is_empty() {
                draft.push(element);
            }
            for pattern in &parsed.get {
                pattern.look_up(element, ctx.keyspace, db, name, |value| {
                    value.unwrap_or(StringValue::Bytes(b"")).with_text(|text| draft.push(text));
                });
            }
        }
        ctx.keyspace.of(target).list_store(db, target, &draft, Event::Sortstore)?;
        ctx.reply.count(count);
        Ok(())
    }
}

fn run(ctx: &mut CommandCtx<'_>, may_store: bool) -> CommandResult {
    let is_cluster = ctx.shard.config.cluster_enabled;
    let slot = is_cluster.then(|| engine::hash_slot(ctx.args.get(1)));
    let mut parsed = SortArgs::parse(ctx.args, may_store, slot)?;
    let (source, db) = (ctx.key(1), ctx.client.db);
    let partition = ctx.keyspace.of(&source);
    let value_type = partition.read_type(db, &source, true);
    if value_type == Some(ValueType::Set) && parsed.keeps_order && parsed.store.is_some() {
        // A set has no order that could be stored.
        (parsed.keeps_order, parsed.is_alpha, parsed.by) = (false, true, None);
    }
    let value = partition.value(db, &source);
    let texts = value.map_or(Ok(Texts::default()), |value| read(value, &parsed))?;
    let keeps_order = parsed.keeps_order;
    let window = if keeps_order { 0..texts.len() } else { parsed.window(texts.len()) };
    let target = parsed.store.map(|index| ctx.key(index));
    let mut sorter = Sorter { parsed, texts, name: Vec::new() };
    let sorted = if keeps_order { Vec::new() } else { sorter.sorted(ctx, &window)? };
    let place = |at: usize| if keeps_order { at } else { sorted[at].index as usize };
    let places = window.map(place);
    match target {
        Some(target) => sorter.store(ctx, &target, places),
        None => {
            sorter.answer(ctx, places);
            Ok(())
        }
    }
}

fn sort(ctx: &mut CommandCtx<'_>) -> CommandResult {
    run(ctx, true)
}

fn sort_ro(ctx: &mut CommandCtx<'_>) -> CommandResult {
    run(ctx, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Option<(&str, &str, Option<&str>)> {
        let utf8 = |bytes| std::str::from_utf8(bytes).expect("a part of a text");
        match Pattern::parse(text.as_bytes()) {
            Pattern::Key { before, after, field } => {
                Some((utf8(before), utf8(after), field.map(utf8)))
            }
            _ => None,
        }
    }

    #[test]
    fn patterns() {
        assert_eq!(parts("w_*"), Some(("w_", "", None)));
        assert_eq!(parts("*->f"), Some(("", "", Some("f"))));
        assert_eq!(parts("a*b*->f->g"), Some(("a", "b*", Some("f->g"))));
        assert_eq!(parts("a*->"), Some(("a", "->", None)));
        assert_eq!(parts("a->b*c"), Some(("a->b", "c", None)));
        assert_eq!(parts("#"), None);
        assert_eq!(parts("nosort"), None);
    }

    #[test]
    fn slots_of_patterns() {
        let tag = Some(engine::hash_slot(b"a"));
        for text in ["{a}*", "x{a}*->{b}", "{a}?", "a"] {
            assert_eq!(slot_of_pattern(text.as_bytes()), tag, "{text}");
        }
        for text in ["*", "*{a}", "{*}", "{}{a}*", "{a*}", "x\\*{a}"] {
            assert_eq!(slot_of_pattern(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn ranks_order_as_scores_do() {
        let scores = [f64::NEG_INFINITY, -1e300, -1.0, -1e-300, 0.0, 1e-300, 1.0, f64::INFINITY];
        assert!(scores.is_sorted_by(|a, b| rank_of_score(*a) < rank_of_score(*b)));
        assert_eq!(rank_of_score(-0.0), rank_of_score(0.0));
    }

    #[test]
    fn a_selected_range_is_that_of_the_whole_order() {
        let all: Vec<Ranked> =
            (0..50).map(|index| Ranked { rank: u64::from(index * 37 % 11), index }).collect();
        let compare =
            |a: &Ranked, b: &Ranked| a.rank.cmp(&b.rank).then_with(|| a.index.cmp(&b.index));
        let mut whole = all.clone();
        whole.sort_by(compare);
        for start in 0..=50 {
            for end in start..=50 {
                let mut part = all.clone();
                sort_range(&mut part, &(start..end), compare);
                let same = |at: usize| part[at].index == whole[at].index;
                assert!((start..end).all(same), "{start}..{end}");
            }
        }
    }
}
