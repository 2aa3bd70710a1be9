//! Commands for parts of sorted sets.
//!
//! Invariant: as in Redis, options are read before bounds, and bounds before the key.

use super::super::command::{Answer, Args, Command, WRITE, count, integer, is, slice};
use super::super::command_context::CommandContext;
use super::super::fault::Fault;
use super::super::frame::Frame;
use super::super::number::{lenient_double, text_of};
use super::super::value::SortedSet;

pub(super) const COMMANDS: &[Command] = &[
    Command::data("zcount", 4, 0, count_between),
    Command::data("zrange", -4, 0, |context, args| range(context, args, Options::default(), true)),
    Command::data("zrevrange", -4, 0, |context, args| {
        range(context, args, Options { reverse: true, ..Options::default() }, false)
    }),
    Command::data("zrangebyscore", -4, 0, |context, args| {
        range(context, args, Options { by_score: true, ..Options::default() }, false)
    }),
    Command::data("zrevrangebyscore", -4, 0, |context, args| {
        range(context, args, Options { by_score: true, reverse: true, ..Options::default() }, false)
    }),
    Command::data("zremrangebyscore", 4, WRITE, remove_between),
];

/// A range of scores.
struct Bounds {
    low: f64,
    high: f64,
    above_low: bool,
    below_high: bool,
}

impl Bounds {
    fn read(low: &[u8], high: &[u8]) -> Result<Self, Fault> {
        let one = |text: &[u8]| {
            let (number, exclusive) = match text.strip_prefix(b"(") {
                Some(number) => (number, true),
                None => (text, false),
            };
            let value = lenient_double(number).ok_or(Fault::new("ERR min or max is not a float"))?;
            Ok((value, exclusive))
        };
        let ((low, above_low), (high, below_high)) = (one(low)?, one(high)?);
        Ok(Self { low, high, above_low, below_high })
    }

    fn contain(&self, score: f64) -> bool {
        let above = if self.above_low { score > self.low } else { score >= self.low };
        let below = if self.below_high { score < self.high } else { score <= self.high };
        above && below
    }
}

fn count_between(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let bounds = Bounds::read(&args[2], &args[3])?;
    let set = context.keyspace.get::<SortedSet>(&args[1])?;
    Ok(count(set.map_or(0, |set| set.iter().filter(|(_, score)| bounds.contain(*score)).count())))
}

fn remove_between(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let bounds = Bounds::read(&args[2], &args[3])?;
    let Some(set) = context.keyspace.get::<SortedSet>(&args[1])? else {
        return Ok(Frame::Int(0));
    };
    let inside = set.iter().filter(|(_, score)| bounds.contain(*score));
    let members: Vec<Vec<u8>> = inside.map(|(member, _)| member.to_vec()).collect();
    for member in &members {
        set.remove(member);
    }
    context.keyspace.remove_if_empty(&args[1]);
    Ok(count(members.len()))
}

#[derive(Clone, Copy, Default)]
struct Options {
    with_scores: bool,
    by_score: bool,
    reverse: bool,
    limit: Option<(i64, i64)>,
}

impl Options {
    /// Reads the words after the bounds. `open` is true when BYSCORE and REV may be among these words.
    fn read(mut self, words: Args<'_>, open: bool) -> Result<Self, Fault> {
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if is(word, "withscores") {
                self.with_scores = true;
            } else if is(word, "limit") && words.len() >= 2 {
                let mut number = || words.next().map_or(Err(Fault::SYNTAX), |word| integer(word));
                self.limit = Some((number()?, number()?));
            } else if open && is(word, "rev") {
                self.reverse = true;
            } else if open && is(word, "byscore") {
                self.by_score = true;
            } else {
                return Err(Fault::SYNTAX);
            }
        }
        // Redis cannot tell a limit of -1 from no limit.
        if self.limit.is_some_and(|(_, number)| number != -1) && !self.by_score {
            return Err(Fault::new(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        Ok(self)
    }

    /// Returns the number of elements to skip, and the number to take. A negative offset skips all, and a negative
    /// number takes all.
    fn window(&self) -> (usize, usize) {
        let (offset, number) = self.limit.unwrap_or((0, -1));
        let all_if_negative = |number| usize::try_from(number).unwrap_or(usize::MAX);
        (all_if_negative(offset), all_if_negative(number))
    }
}

fn range(context: &mut CommandContext, args: Args<'_>, options: Options, open: bool) -> Answer {
    let options = options.read(&args[4..], open)?;
    let found: Vec<(&[u8], f64)> = if options.by_score {
        let (low, high) = if options.reverse { (3, 2) } else { (2, 3) };
        let bounds = Bounds::read(&args[low], &args[high])?;
        let (skipped, taken) = options.window();
        let set = context.keyspace.get::<SortedSet>(&args[1])?;
        let inside = set.into_iter().flat_map(|set| direct(set, options.reverse));
        inside.filter(|(_, score)| bounds.contain(*score)).skip(skipped).take(taken).collect()
    } else {
        let (start, stop) = (integer(&args[2])?, integer(&args[3])?);
        let set = context.keyspace.get::<SortedSet>(&args[1])?;
        let places = slice(start, stop, set.as_ref().map_or(0, |set| set.len()));
        let all = set.into_iter().flat_map(|set| direct(set, options.reverse));
        all.skip(places.start).take(places.len()).collect()
    };
    let mut items = Vec::new();
    for (member, score) in found {
        items.push(Frame::bulk(member));
        if options.with_scores {
            items.push(Frame::bulk(text_of(score)));
        }
    }
    Ok(Frame::Array(items))
}

fn direct(set: &SortedSet, reverse: bool) -> Box<dyn Iterator<Item = (&[u8], f64)> + '_> {
    if reverse { Box::new(set.iter().rev()) } else { Box::new(set.iter()) }
}
