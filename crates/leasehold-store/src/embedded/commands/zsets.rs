//! Commands that change sorted sets, or read one member.
//!
//! Invariant: no score is NaN.

use super::super::command::{Answer, Args, Command, GROWS, WRITE, count, double, is};
use super::super::command_context::CommandContext;
use super::super::fault::Fault;
use super::super::frame::Frame;
use super::super::number::text_of;
use super::super::value::SortedSet;

pub(super) const COMMANDS: &[Command] = &[
    Command::data("zadd", -4, WRITE | GROWS, add),
    Command::data("zincrby", 4, WRITE | GROWS, increase),
    Command::data("zrem", -3, WRITE, remove),
    Command::data("zscore", 3, 0, score),
    Command::data("zcard", 2, 0, length),
];

/// The options of ZADD.
#[derive(Default)]
struct Options {
    new: bool,
    present: bool,
    greater: bool,
    less: bool,
    changed: bool,
    increase: bool,
}

impl Options {
    /// Reads the options, and counts their words.
    fn read(words: Args<'_>) -> (Self, usize) {
        let mut options = Self::default();
        for (at, word) in words.iter().enumerate() {
            let flag = match word {
                word if is(word, "nx") => &mut options.new,
                word if is(word, "xx") => &mut options.present,
                word if is(word, "ch") => &mut options.changed,
                word if is(word, "incr") => &mut options.increase,
                word if is(word, "gt") => &mut options.greater,
                word if is(word, "lt") => &mut options.less,
                _ => return (options, at),
            };
            *flag = true;
        }
        (options, words.len())
    }

    fn judge(&self, pairs: Args<'_>) -> Result<(), Fault> {
        if !pairs.len().is_multiple_of(2) || pairs.is_empty() {
            return Err(Fault::SYNTAX);
        }
        if self.new && self.present {
            return Err(Fault::new("ERR XX and NX options at the same time are not compatible"));
        }
        if self.greater && (self.new || self.less) || self.less && self.new {
            return Err(Fault::new("ERR GT, LT, and/or NX options at the same time are not compatible"));
        }
        if self.increase && pairs.len() > 2 {
            return Err(Fault::new("ERR INCR option supports a single increment-element pair"));
        }
        Ok(())
    }

    /// Returns the new score of a member, or `None` when the member stays unchanged or absent.
    fn decide(&self, before: Option<f64>, given: f64) -> Result<Option<f64>, Fault> {
        let Some(before) = before else {
            return Ok((!self.present).then_some(given));
        };
        if self.new {
            return Ok(None);
        }
        let after = if self.increase { before + given } else { given };
        if after.is_nan() {
            return Err(Fault::new("ERR resulting score is not a number (NaN)"));
        }
        let stays = self.less && after >= before || self.greater && after <= before;
        Ok((!stays).then_some(after))
    }
}

fn add(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let (options, words) = Options::read(&args[2..]);
    insert(context, &args[1], &options, &args[2 + words..])
}

/// Handles ZINCRBY, which accepts the options of ZADD, as that of Redis does.
fn increase(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let (options, words) = Options::read(&args[2..]);
    insert(context, &args[1], &Options { increase: true, ..options }, &args[2 + words..])
}

fn insert(context: &mut CommandContext, key: &[u8], options: &Options, pairs: Args<'_>) -> Answer {
    options.judge(pairs)?;
    let mut scores = Vec::with_capacity(pairs.len() / 2);
    for pair in pairs.chunks_exact(2) {
        scores.push(double(&pair[0])?);
    }
    let (mut added, mut changed, mut last) = (0, 0, Frame::Nil);
    let set = context.keyspace.make::<SortedSet>(key)?;
    for (pair, given) in pairs.chunks_exact(2).zip(scores) {
        let before = set.score(&pair[1]);
        // Only an increment can fail. Its pair is the only pair, so nothing was changed before.
        if let Some(after) = options.decide(before, given)? {
            // Redis keeps a zero as it is when the score becomes the other zero.
            if before != Some(after) {
                set.insert(&pair[1], after);
                changed += 1;
            }
            added += usize::from(before.is_none());
            last = Frame::bulk(text_of(after));
        }
    }
    context.keyspace.remove_if_empty(key);
    Ok(match options {
        Options { increase: true, .. } => last,
        Options { changed: true, .. } => count(changed),
        _ => count(added),
    })
}

fn remove(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let Some(set) = context.keyspace.get::<SortedSet>(&args[1])? else {
        return Ok(Frame::Int(0));
    };
    let removed = args[2..].iter().filter(|member| set.remove(member).is_some()).count();
    context.keyspace.remove_if_empty(&args[1]);
    Ok(count(removed))
}

fn score(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let found = context.keyspace.get::<SortedSet>(&args[1])?.and_then(|set| set.score(&args[2]));
    Ok(found.map_or(Frame::Nil, |score| Frame::bulk(text_of(score))))
}

fn length(context: &mut CommandContext, args: Args<'_>) -> Answer {
    Ok(count(context.keyspace.get::<SortedSet>(&args[1])?.map_or(0, |set| set.len())))
}
