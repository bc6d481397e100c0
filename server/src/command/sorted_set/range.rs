//! Commands on ranges of a sorted set.

use engine::{Event, Members, Scored};

use super::bounds::Bounds;
use super::{answer_count, answer_member};
use crate::command::dispatch::{CommandCtx, CommandResult};
use crate::command::error::{CommandError, SYNTAX};

/// What the ends of a range are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Name,
}

/// What a command on a range asks for.
struct RangeArgs<'a> {
    bounds: Bounds<'a>,
    backward: bool,
    with_scores: bool,
    /// Members to pass over, and how many to take at most.
    limit: (i64, i64),
}

impl<'a> RangeArgs<'a> {
    /// Reads the arguments from the start of the range on. What the command's name does not say,
    /// options may.
    fn parse(
        ctx: &CommandCtx<'a>,
        first: usize,
        by: Option<By>,
        backward: Option<bool>,
        stores: bool,
    ) -> Result<Self, CommandError> {
        const LIMIT_BY_RANK: CommandError = CommandError::new(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        );
        const SCORES_BY_NAME: CommandError = CommandError::new(
            "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
        );
        let args = ctx.args;
        let (mut chosen_by, mut chosen_backward) = (by, backward);
        let (mut with_scores, mut limit) = (false, (0, -1));
        let mut cursor = args.cursor(first + 2);
        while cursor.remaining() > 0 {
            if !stores && cursor.accept("withscores") {
                with_scores = true;
            } else if cursor.remaining() >= 3 && cursor.accept("limit") {
                limit = (cursor.integer()?, cursor.integer()?);
            } else if backward.is_none() && chosen_backward.is_none() && cursor.accept("rev") {
                chosen_backward = Some(true);
            } else if chosen_by.is_none() && cursor.accept("bylex") {
                chosen_by = Some(By::Name);
            } else if chosen_by.is_none() && cursor.accept("byscore") {
                chosen_by = Some(By::Score);
            } else {
                return Err(SYNTAX);
            }
        }
        let by = chosen_by.unwrap_or(By::Rank);
        let backward = chosen_backward.unwrap_or(false);
        if limit.1 != -1 && by == By::Rank {
            return Err(LIMIT_BY_RANK);
        }
        if with_scores && by == By::Name {
            return Err(SCORES_BY_NAME);
        }
        let (min, max) = if backward && by != By::Rank {
            (args.get(first + 1), args.get(first))
        } else {
            (args.get(first), args.get(first + 1))
        };
        let bounds = match by {
            By::Rank => Bounds::Ranks(args.integer(first)?, args.integer(first + 1)?),
            By::Score => Bounds::scores(min, max)?,
            By::Name => Bounds::names(min, max)?,
        };
        // `LIMIT n -1` means nothing to a range of ranks.
        let limit = if by == By::Rank { (0, -1) } else { limit };
        Ok(Self { bounds, backward, with_scores, limit })
    }

    /// The ranks that the request means.
    fn ranks(&self, set: &Members<'_>) -> std::ops::Range<usize> {
        let ranks = self.bounds.ranks(set, self.backward);
        let (offset, count) = self.limit;
        let offset = usize::try_from(offset).unwrap_or(usize::MAX).min(ranks.len());
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(ranks.len() - offset);
        if self.backward {
            let end = ranks.end - offset;
            end - count..end
        } else {
            let start = ranks.start + offset;
            start..start + count
        }
    }
}

fn answer_range(ctx: &mut CommandCtx<'_>, by: Option<By>, backward: Option<bool>) -> CommandResult {
    let range = RangeArgs::parse(ctx, 2, by, backward, false)?;
    let (key, db) = (ctx.key(1), ctx.client.db);
    let Some(set) = ctx.keyspace.sorted_set(db, &key)? else {
        ctx.reply.array(0);
        return Ok(());
    };
    let ranks = range.ranks(&set);
    answer_count(ctx.reply, ranks.len(), range.with_scores);
    set.each_ranked(ranks, range.backward, |member| {
        answer_member(ctx.reply, &member, range.with_scores);
    });
    Ok(())
}

pub(super) fn zrange(ctx: &mut CommandCtx<'_>) -> CommandResult {
    answer_range(ctx, None, None)
}

pub(super) fn zrevrange(ctx: &mut CommandCtx<'_>) -> CommandResult {
    answer_range(ctx, Some(By::Rank), Some(true))
}

pub(super) fn zrangebyscore(ctx: &mut CommandCtx<'_>) -> CommandResult {
    answer_range(ctx, Some(By::Score), Some(false))
}

pub(super) fn zrevrangebyscore(ctx: &mut CommandCtx<'_>) -> CommandResult {
    answer_range(ctx, Some(By::Score), Some(true))
}

pub(super) fn zrangebylex(ctx: &mut CommandCtx<'_>) -> CommandResult {
    answer_range(ctx, Some(By::Name), Some(false))
}

pub(super) fn zrevrangebylex(ctx: &mut CommandCtx<'_>) -> CommandResult {
    answer_range(ctx, Some(By::Name), Some(true))
}

pub(super) fn zrangestore(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let range = RangeArgs::parse(ctx, 3, None, None, true)?;
    let (target, source, db) = (ctx.key(1), ctx.key(2), ctx.client.db);
    let mut names = Vec::new();
    if let Some(set) = ctx.keyspace.of(&source).sorted_set(db, &source)? {
        set.each_ranked(range.ranks(&set), range.backward, |member| {
            names.push((member.score, member.name.with_text(<[u8]>::to_vec)));
        });
    }
    let pairs: Vec<Scored<'_>> = names.iter().map(|(score, name)| (*score, &name[..])).collect();
    ctx.keyspace.of(&target).sorted_set_store(db, &target, pairs, Event::Zrangestore)?;
    ctx.reply.count(names.len());
    Ok(())
}

fn count(ctx: &mut CommandCtx<'_>, bounds: Bounds<'_>) -> CommandResult {
    let found = super::read(ctx)?.map_or(0, |set| bounds.ranks(&set, false).len());
    ctx.reply.count(found);
    Ok(())
}

pub(super) fn zcount(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let args = ctx.args;
    count(ctx, Bounds::scores(args.get(2), args.get(3))?)
}

pub(super) fn zlexcount(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let args = ctx.args;
    count(ctx, Bounds::names(args.get(2), args.get(3))?)
}

fn remove(ctx: &mut CommandCtx<'_>, bounds: Bounds<'_>, event: Event) -> CommandResult {
    let (key, db) = (ctx.key(1), ctx.client.db);
    let ranks = match ctx.keyspace.sorted_set_look(db, &key)? {
        Some(set) => bounds.ranks(&set, false),
        None => 0..0,
    };
    let removed = ctx.keyspace.sorted_set_remove_ranks(db, &key, ranks, event)?;
    ctx.reply.count(removed);
    Ok(())
}

pub(super) fn zremrangebyrank(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let args = ctx.args;
    let bounds = Bounds::Ranks(args.integer(2)?, args.integer(3)?);
    remove(ctx, bounds, Event::Zremrangebyrank)
}

pub(super) fn zremrangebyscore(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let args = ctx.args;
    remove(ctx, Bounds::scores(args.get(2), args.get(3))?, Event::Zremrangebyscore)
}

pub(super) fn zremrangebylex(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let args = ctx.args;
    remove(ctx, Bounds::names(args.get(2), args.get(3))?, Event::Zremrangebylex)
}
