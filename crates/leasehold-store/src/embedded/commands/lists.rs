//! Commands for lists.
//!
//! Invariant: a list that is emptied is removed.

use std::collections::VecDeque;

use super::super::command::{Answer, Args, Command, GROWS, WRITE, count, integer, is, slice};
use super::super::command_context::CommandContext;
use super::super::fault::Fault;
use super::super::frame::Frame;

type List = VecDeque<Vec<u8>>;

pub(super) const COMMANDS: &[Command] = &[
    Command::data("rpush", -3, WRITE | GROWS, |context, args| push(context, args, End::Tail)),
    Command::data("lpush", -3, WRITE | GROWS, |context, args| push(context, args, End::Head)),
    Command::data("lpop", -2, WRITE, |context, args| pop(context, args, End::Head)),
    Command::data("rpop", -2, WRITE, |context, args| pop(context, args, End::Tail)),
    Command::data("llen", 2, 0, length),
    Command::data("lindex", 3, 0, index),
    Command::data("lpos", -3, 0, position),
    Command::data("lrange", 4, 0, range),
    Command::data("lrem", 4, WRITE, remove),
];

#[derive(Clone, Copy)]
enum End {
    Head,
    Tail,
}

fn push(context: &mut CommandContext, args: Args<'_>, end: End) -> Answer {
    let list = context.keyspace.make::<List>(&args[1])?;
    for element in &args[2..] {
        match end {
            End::Head => list.push_front(element.clone()),
            End::Tail => list.push_back(element.clone()),
        }
    }
    Ok(count(list.len()))
}

fn pop(context: &mut CommandContext, args: Args<'_>, end: End) -> Answer {
    let wanted = match &args[2..] {
        [] => None,
        [wanted] => Some(positive(wanted)?),
        _ => return Err(Fault::arity(&String::from_utf8_lossy(&args[0]).to_lowercase())),
    };
    let Some(list) = context.keyspace.get::<List>(&args[1])? else {
        return Ok(if wanted.is_some() { Frame::NilArray } else { Frame::Nil });
    };
    let mut take = || match end {
        End::Head => list.pop_front(),
        End::Tail => list.pop_back(),
    };
    let answer = match wanted {
        None => take().map_or(Frame::Nil, Frame::Bulk),
        Some(wanted) => {
            let mut taken = Vec::new();
            while taken.len() < wanted {
                let Some(element) = take() else { break };
                taken.push(Frame::Bulk(element));
            }
            Frame::Array(taken)
        }
    };
    context.keyspace.remove_if_empty(&args[1]);
    Ok(answer)
}

fn positive(text: &[u8]) -> Result<usize, Fault> {
    let fault = || Fault::new("ERR value is out of range, must be positive");
    let number = super::super::number::integer(text).ok_or_else(fault)?;
    usize::try_from(number).map_err(|_| fault())
}

fn length(context: &mut CommandContext, args: Args<'_>) -> Answer {
    Ok(count(context.keyspace.get::<List>(&args[1])?.map_or(0, |list| list.len())))
}

fn index(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let Some(list) = context.keyspace.get::<List>(&args[1])? else {
        return Ok(Frame::Nil);
    };
    let at = integer(&args[2])?;
    let place = slice(at, at, list.len());
    let in_bounds = if at < 0 { at.unsigned_abs() <= list.len() as u64 } else { true };
    let found = if in_bounds && !place.is_empty() { list.get(place.start) } else { None };
    Ok(found.map_or(Frame::Nil, |element| Frame::Bulk(element.clone())))
}

/// The options of LPOS.
struct Search {
    /// The first match to return, counted from the tail when negative.
    rank: i64,
    /// The number of matches to return, or all when zero. Without a number LPOS returns one match, and not as an array.
    number: Option<i64>,
    /// The number of elements to compare, all when zero.
    most: i64,
}

impl Search {
    fn read(words: Args<'_>) -> Result<Self, Fault> {
        let mut search = Self { rank: 1, number: None, most: 0 };
        let not_negative = |text: &[u8], complaint| match super::super::number::integer(text) {
            Some(number) if number >= 0 => Ok(number),
            _ => Err(Fault::new(complaint)),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let Some(value) = words.next() else {
                return Err(Fault::SYNTAX);
            };
            if is(word, "rank") {
                search.rank = integer(value)?;
                if search.rank == 0 {
                    return Err(Fault::new(
                        "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use \
                         negative to start from the end of the list",
                    ));
                }
            } else if is(word, "count") {
                search.number = Some(not_negative(value, "ERR COUNT can't be negative")?);
            } else if is(word, "maxlen") {
                search.most = not_negative(value, "ERR MAXLEN can't be negative")?;
            } else {
                return Err(Fault::SYNTAX);
            }
        }
        Ok(search)
    }

    fn find(&self, list: &List, element: &[u8]) -> Vec<Frame> {
        let or_all = |number| match usize::try_from(number) {
            Ok(0) | Err(_) => usize::MAX,
            Ok(number) => number,
        };
        let length = list.len();
        let place = |at: usize| if self.rank < 0 { length - 1 - at } else { at };
        // The smallest rank has no positive counterpart. In C it stays unchanged, and no match is skipped.
        let Some(rank) = self.rank.checked_abs() else {
            let all = Self { rank: -1, number: self.number.map(|_| 0), most: self.most };
            return all.find(list, element);
        };
        let passed_over = usize::try_from(rank - 1).unwrap_or(usize::MAX);
        let places = (0..length.min(or_all(self.most))).map(place).filter(|&at| list[at] == element);
        places.skip(passed_over).take(or_all(self.number.unwrap_or(1))).map(count).collect()
    }
}

fn position(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let search = Search::read(&args[3..])?;
    let list = context.keyspace.get::<List>(&args[1])?;
    let mut found = list.map_or_else(Vec::new, |list| search.find(list, &args[2]));
    Ok(match search.number {
        Some(_) => Frame::Array(found),
        None => found.pop().unwrap_or(Frame::Nil),
    })
}

fn range(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let (start, stop) = (integer(&args[2])?, integer(&args[3])?);
    let Some(list) = context.keyspace.get::<List>(&args[1])? else {
        return Ok(Frame::Array(Vec::new()));
    };
    let found = list.range(slice(start, stop, list.len()));
    Ok(Frame::Array(found.map(|element| Frame::Bulk(element.clone())).collect()))
}

fn remove(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let wanted = integer(&args[2])?;
    let Some(list) = context.keyspace.get::<List>(&args[1])? else {
        return Ok(Frame::Int(0));
    };
    let mut left = if wanted == 0 { u64::MAX } else { wanted.unsigned_abs() };
    let mut removed = 0;
    let mut keep = |element: &Vec<u8>| {
        let goes = left > 0 && *element == args[3];
        if goes {
            left -= 1;
            removed += 1;
        }
        !goes
    };
    if wanted < 0 {
        let mut kept: List = std::mem::take(list).into_iter().rev().filter(|element| keep(element)).collect();
        kept.make_contiguous().reverse();
        *list = kept;
    } else {
        list.retain(|element| keep(element));
    }
    context.keyspace.remove_if_empty(&args[1]);
    Ok(count(removed))
}
