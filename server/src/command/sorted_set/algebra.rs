//! Commands on several sorted sets, or sets, whose members count as having the score 1: union,
//! intersection, difference.

use encodings::double;
use encodings::integer::parse_i64;
use engine::{Event, Key, Member, Members, Scored, ValueType};
use indexmap::IndexMap;

use super::{answer_count, answer_member};
use crate::command::dispatch::{CommandCtx, CommandResult};
use crate::command::error::{CommandError, NOT_AN_INTEGER, SYNTAX};
use crate::keyspace::Keyspace;

/// How several become one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Inter,
    Union,
    Diff,
}

/// What becomes of the scores that a member has in several inputs.
#[derive(Clone, Copy, Default)]
enum Aggregate {
    #[default]
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn apply(self, score: f64, other: f64) -> f64 {
        match self {
            // Infinities of both signs make 0.
            Self::Sum => number_or_zero(score + other),
            Self::Min => {
                if other < score {
                    other
                } else {
                    score
                }
            }
            Self::Max => {
                if other > score {
                    other
                } else {
                    score
                }
            }
        }
    }
}

fn number_or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// An input with its weight.
struct Source<'k> {
    members: Option<Members<'k>>,
    weight: f64,
}

impl<'k> Source<'k> {
    fn len(&self) -> usize {
        self.members.map_or(0, |members| members.len())
    }

    fn each(&self, mut f: impl FnMut(f64, Member<'k>)) {
        if let Some(members) = self.members {
            members.for_each(|member| f(score_in(&members, &member), member));
        }
    }

    fn score_of(&self, name: &[u8]) -> Option<f64> {
        let members = self.members?;
        members.get(name).map(|member| score_in(&members, &member))
    }
}

fn score_in(members: &Members<'_>, member: &Member<'_>) -> f64 {
    if members.value_type() == ValueType::Set { 1.0 } else { member.score }
}

/// A member of the result.
type Found = (f64, Vec<u8>);

/// What a command on several sorted sets asks for.
#[derive(Default)]
struct Options {
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    limit: usize,
}

/// Which options a command has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Answer,
    Store,
    Count,
}

/// Reads the number of keys at an argument, and answers the keys behind it.
fn keys<'a>(ctx: &CommandCtx<'a>, at: usize) -> Result<Vec<Key<'a>>, CommandError> {
    let count = parse_i64(ctx.args.get(at)).ok_or(NOT_AN_INTEGER)?;
    if count < 1 {
        let name = &ctx.entry.name;
        return Err(CommandError::text(format!(
            "ERR at least 1 input key is needed for '{name}' command"
        )));
    }
    let left = ctx.args.len() - at - 1;
    let count = usize::try_from(count).ok().filter(|count| *count <= left).ok_or(SYNTAX)?;
    Ok((at + 1..at + 1 + count).map(|index| *ctx.key(index)).collect())
}

impl Options {
    fn parse(
        ctx: &CommandCtx<'_>,
        first: usize,
        keys: usize,
        operation: Operation,
        form: Form,
    ) -> Result<Self, CommandError> {
        let mut options = Self { weights: vec![1.0; keys], ..Self::default() };
        let weighs = operation != Operation::Diff && form != Form::Count;
        let mut cursor = ctx.args.cursor(first);
        while cursor.remaining() > 0 {
            if weighs && cursor.remaining() > keys && cursor.accept("weights") {
                for (weight, text) in options.weights.iter_mut().zip(&mut cursor) {
                    let number = double::parse(text);
                    *weight = number.ok_or(CommandError::new("ERR weight value is not a float"))?;
                }
            } else if let Some(word) =
                Some(()).filter(|()| weighs).and_then(|()| cursor.accept_with_value("aggregate"))
            {
                let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
                options.aggregate = match () {
                    () if is("sum") => Aggregate::Sum,
                    () if is("min") => Aggregate::Min,
                    () if is("max") => Aggregate::Max,
                    () => return Err(SYNTAX),
                };
            } else if form == Form::Answer && cursor.accept("withscores") {
                options.with_scores = true;
            } else if form == Form::Count {
                let text = cursor.accept_with_value("limit").ok_or(SYNTAX)?;
                let limit = parse_i64(text).and_then(|limit| usize::try_from(limit).ok());
                options.limit = limit.ok_or(CommandError::new("ERR LIMIT can't be negative"))?;
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(options)
    }
}

/// Looks at the keys as reads do: checks the types and lets what is due expire.
fn read_keys(keyspace: &mut Keyspace, db: usize, keys: &[Key<'_>]) -> CommandResult {
    for key in keys {
        keyspace.of(key).set_or_sorted_set(db, key)?;
    }
    Ok(())
}

/// The inputs; their keys have been looked at.
fn sources<'k>(
    keyspace: &'k Keyspace,
    db: usize,
    keys: &[Key<'_>],
    weights: &[f64],
) -> Result<Vec<Source<'k>>, CommandError> {
    let source = |(key, weight): (&Key<'_>, &f64)| {
        let members = keyspace.view_of(key).view_set_or_sorted_set(db, key)?;
        Ok(Source { members, weight: *weight })
    };
    keys.iter().zip(weights).map(source).collect()
}

fn unite(sources: &[Source<'_>], aggregate: Aggregate) -> Vec<Found> {
    let mut found: IndexMap<Vec<u8>, f64> = IndexMap::new();
    for source in sources {
        source.each(|score, member| {
            let score = number_or_zero(source.weight * score);
            member.name.with_text(|name| match found.get_mut(name) {
                Some(total) => *total = aggregate.apply(*total, score),
                None => _ = found.insert(name.to_vec(), score),
            });
        });
    }
    found.into_iter().map(|(name, score)| (score, name)).collect()
}

/// Calls `f` with what all inputs have, until it answers false.
fn intersect(sources: &[Source<'_>], aggregate: Aggregate, mut f: impl FnMut(f64, &[u8]) -> bool) {
    let (first, others) = sources.split_first().expect("a command names a key");
    let mut goes_on = true;
    first.each(|score, member| {
        if !goes_on {
            return;
        }
        let first_score = number_or_zero(first.weight * score);
        member.name.with_text(|name| {
            let total = others.iter().try_fold(first_score, |total, other| {
                Some(aggregate.apply(total, other.weight * other.score_of(name)?))
            });
            if let Some(total) = total {
                goes_on = f(total, name);
            }
        });
    });
}

fn compute(
    keyspace: &Keyspace,
    db: usize,
    keys: &[Key<'_>],
    operation: Operation,
    options: &Options,
) -> Result<Vec<Found>, CommandError> {
    let mut sources = sources(keyspace, db, keys, &options.weights)?;
    let mut found = Vec::new();
    match operation {
        Operation::Union => {
            sources.sort_by_key(Source::len);
            found = unite(&sources, options.aggregate);
        }
        Operation::Inter => {
            sources.sort_by_key(Source::len);
            intersect(&sources, options.aggregate, |score, name| {
                found.push((score, name.to_vec()));
                true
            });
        }
        Operation::Diff => {
            let (first, others) = sources.split_first().expect("a command names a key");
            first.each(|score, member| {
                member.name.with_text(|name| {
                    if others.iter().all(|other| other.score_of(name).is_none()) {
                        found.push((score, name.to_vec()));
                    }
                });
            });
        }
    }
    Ok(found)
}

fn answer(ctx: &mut CommandCtx<'_>, operation: Operation) -> CommandResult {
    let (keys, db) = (keys(ctx, 1)?, ctx.client.db);
    read_keys(ctx.keyspace, db, &keys)?;
    let options = Options::parse(ctx, 2 + keys.len(), keys.len(), operation, Form::Answer)?;
    let mut found = compute(ctx.keyspace, db, &keys, operation, &options)?;
    found.sort_by(|a, b| engine::in_order((a.0, &a.1), (b.0, &b.1)));
    answer_count(ctx.reply, found.len(), options.with_scores);
    for (score, name) in &found {
        answer_member(ctx.reply, &Member::scored(*score, name), options.with_scores);
    }
    Ok(())
}

fn store(ctx: &mut CommandCtx<'_>, operation: Operation, event: Event) -> CommandResult {
    let (target, keys, db) = (ctx.key(1), keys(ctx, 2)?, ctx.client.db);
    read_keys(ctx.keyspace, db, &keys)?;
    let options = Options::parse(ctx, 3 + keys.len(), keys.len(), operation, Form::Store)?;
    let found = compute(ctx.keyspace, db, &keys, operation, &options)?;
    let pairs: Vec<Scored<'_>> = found.iter().map(|(score, name)| (*score, &name[..])).collect();
    ctx.keyspace.of(&target).sorted_set_store(db, &target, pairs, event)?;
    ctx.reply.count(found.len());
    Ok(())
}

pub(super) fn zunion(ctx: &mut CommandCtx<'_>) -> CommandResult {
    answer(ctx, Operation::Union)
}

pub(super) fn zinter(ctx: &mut CommandCtx<'_>) -> CommandResult {
    answer(ctx, Operation::Inter)
}

pub(super) fn zdiff(ctx: &mut CommandCtx<'_>) -> CommandResult {
    answer(ctx, Operation::Diff)
}

pub(super) fn zunionstore(ctx: &mut CommandCtx<'_>) -> CommandResult {
    store(ctx, Operation::Union, Event::Zunionstore)
}

pub(super) fn zinterstore(ctx: &mut CommandCtx<'_>) -> CommandResult {
    store(ctx, Operation::Inter, Event::Zinterstore)
}

pub(super) fn zdiffstore(ctx: &mut CommandCtx<'_>) -> CommandResult {
    store(ctx, Operation::Diff, Event::Zdiffstore)
}

pub(super) fn zintercard(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (keys, db) = (keys(ctx, 1)?, ctx.client.db);
    read_keys(ctx.keyspace, db, &keys)?;
    let options = Options::parse(ctx, 2 + keys.len(), keys.len(), Operation::Inter, Form::Count)?;
    let mut sources = sources(ctx.keyspace, db, &keys, &options.weights)?;
    sources.sort_by_key(Source::len);
    let mut found = 0;
    intersect(&sources, options.aggregate, |_, _| {
        found += 1;
        found != options.limit
    });
    ctx.reply.count(found);
    Ok(())
}
