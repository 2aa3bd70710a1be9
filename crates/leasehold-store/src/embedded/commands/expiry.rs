//! Commands for the expiry of a key.
//!
//! Invariant: a time that has already passed removes the key at once.

use super::super::command::{Answer, Args, Command, WRITE, integer, is, until_zero};
use super::super::command_context::CommandContext;
use super::super::fault::Fault;
use super::super::frame::Frame;

pub(super) const COMMANDS: &[Command] = &[
    Command::data("persist", 2, WRITE, persist),
    Command::data("expire", -3, WRITE, |context, args| expire(context, args, Unit::Seconds, Base::Now)),
    Command::data("expireat", -3, WRITE, |context, args| expire(context, args, Unit::Seconds, Base::Zero)),
    Command::data("pexpire", -3, WRITE, |context, args| expire(context, args, Unit::Millis, Base::Now)),
    Command::data("pexpireat", -3, WRITE, |context, args| expire(context, args, Unit::Millis, Base::Zero)),
    Command::data("ttl", 2, 0, |context, args| remaining(context, args, Unit::Seconds, Base::Now)),
    Command::data("pttl", 2, 0, |context, args| remaining(context, args, Unit::Millis, Base::Now)),
    Command::data("expiretime", 2, 0, |context, args| remaining(context, args, Unit::Seconds, Base::Zero)),
    Command::data("pexpiretime", 2, 0, |context, args| remaining(context, args, Unit::Millis, Base::Zero)),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Seconds,
    Millis,
}

/// The origin of a time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Base {
    Now,
    Zero,
}

fn persist(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let taken = context.keyspace.find(&args[1]).and_then(|item| item.expires_at_ms.take());
    Ok(Frame::Int(taken.is_some().into()))
}

fn remaining(context: &mut CommandContext, args: Args<'_>, unit: Unit, base: Base) -> Answer {
    let now_ms = context.keyspace.now_ms;
    let Some(item) = context.keyspace.find(&args[1]) else {
        return Ok(Frame::Int(-2));
    };
    let Some(at) = item.expires_at_ms else {
        return Ok(Frame::Int(-1));
    };
    let ms = if base == Base::Now { at.saturating_sub(now_ms) } else { at };
    let answer = if unit == Unit::Seconds { ms.saturating_add(500) / 1000 } else { ms };
    Ok(Frame::Int(i64::try_from(answer).unwrap_or(i64::MAX)))
}

/// The conditions under which a command sets a new time.
#[derive(Default)]
struct Only {
    without: bool,
    with: bool,
    greater: bool,
    less: bool,
}

impl Only {
    fn read(words: Args<'_>) -> Result<Self, Fault> {
        let mut only = Self::default();
        for word in words {
            let flag = match word {
                word if is(word, "nx") => &mut only.without,
                word if is(word, "xx") => &mut only.with,
                word if is(word, "gt") => &mut only.greater,
                word if is(word, "lt") => &mut only.less,
                word => {
                    let shown = String::from_utf8_lossy(until_zero(word)).into_owned();
                    return Err(Fault::of(format!("ERR Unsupported option {shown}")));
                }
            };
            *flag = true;
        }
        if only.without && (only.with || only.greater || only.less) {
            return Err(Fault::new("ERR NX and XX, GT or LT options at the same time are not compatible"));
        }
        if only.greater && only.less {
            return Err(Fault::new("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(only)
    }

    fn allows(&self, present: Option<u64>, wanted: i64) -> bool {
        let present = present.map(|at| i64::try_from(at).unwrap_or(i64::MAX));
        !(self.without && present.is_some()
            || self.with && present.is_none()
            || self.greater && present.is_none_or(|present| wanted <= present)
            || self.less && present.is_some_and(|present| wanted >= present))
    }
}

fn expire(context: &mut CommandContext, args: Args<'_>, unit: Unit, base: Base) -> Answer {
    let only = Only::read(&args[3..])?;
    let given = integer(&args[2])?;
    let now_ms = i64::try_from(context.keyspace.now_ms).unwrap_or(i64::MAX);
    let factor = if unit == Unit::Seconds { 1000 } else { 1 };
    let wanted = given
        .checked_mul(factor)
        .and_then(|ms| ms.checked_add(if base == Base::Now { now_ms } else { 0 }))
        .ok_or_else(|| invalid_time(&args[0]))?;
    let Some(item) = context.keyspace.find(&args[1]) else {
        return Ok(Frame::Int(0));
    };
    if !only.allows(item.expires_at_ms, wanted) {
        return Ok(Frame::Int(0));
    }
    match u64::try_from(wanted) {
        Ok(at) if wanted > now_ms => item.expires_at_ms = Some(at),
        _ => {
            context.keyspace.remove(&args[1]);
        }
    }
    Ok(Frame::Int(1))
}

/// Returns the fault of a time that is out of range, for the command of this name.
pub(super) fn invalid_time(name: &[u8]) -> Fault {
    let name = String::from_utf8_lossy(name).to_lowercase();
    Fault::of(format!("ERR invalid expire time in '{name}' command"))
}
