//! `leasehold repair`: gives a lock without an expiry a lease.
//!
//! Invariant: the lock is seen twice without a change before it is touched, and the script compares it once more.

use std::time::Duration;

use anyhow::anyhow;
use leasehold_proto::operate::{Content, Hold, Kind, Mode, expire, expire_value, read_expired};
use leasehold_proto::recipe::plain;
use leasehold_proto::{Call, Name, Remaining, Reply};

use crate::arguments::operator::{Damage, Repair};
use crate::clock::{after, reached};
use crate::command::confirm::confirmed;
use crate::command::fleet;
use crate::command::show::text;
use crate::duration::shown;
use crate::exit::Failure;
use crate::fleet::{Fleet, Found, is_foreign};
use crate::report::write_to_stdout;
use crate::table::Style;

/// The exit codes besides 0.
const SOUND: u8 = 1;
const CHANGED: u8 = 2;
const DECLINED: u8 = 3;

/// Runs the verb and returns the exit code.
pub(crate) fn run(arguments: &Repair) -> u8 {
    let Damage::NoExpiry = arguments.fix;
    fleet::run(&arguments.servers, async |fleet| repair(arguments, &fleet).await)
}

async fn repair(arguments: &Repair, fleet: &Fleet) -> Result<u8, Failure> {
    let Repair { name, lease, yes, foreign, .. } = arguments;
    fleet.refuse_quorum()?;
    let said = foreign.then_some(Kind::Plain);
    let listing = fleet.show_as(name, said).await?;
    let object = listing.objects.first();
    let kind = object.map(|object| object.kind).or(said);
    let Some(damage) = damage(&fleet.look(name, kind).await?) else {
        let is_endless = object.is_some_and(|object| object.value.is_some() && object.expires_ms.is_none());
        if is_endless && !foreign {
            return Err(is_foreign(name));
        }
        write_to_stdout("there is nothing to repair: the name is free, or it expires\n");
        return Ok(SOUND);
    };
    if damage.is_foreign() && !foreign {
        return Err(is_foreign(name));
    }
    if let Some(object) = object {
        write_to_stdout(&text(&listing, object, Style { width: None, has_color: false }));
    }
    if !yes && !confirmed(name)? {
        return Ok(DECLINED);
    }
    write_to_stdout(&format!("looking again in {}\n", shown(*lease)));
    reached(Some(after(*lease))).await;
    let is_same = self::damage(&fleet.look(name, kind).await?).is_some_and(|again| again == damage);
    let is_repaired = is_same && expired(&fleet.run(damage.repair(&fleet.key(name)?, *lease)).await?)?;
    if is_repaired {
        write_to_stdout(&format!("repaired: it ends in {}, unless a holder renews it\n", shown(*lease)));
        Ok(0)
    } else {
        write_to_stdout("the lock has changed meanwhile, so it was not touched\n");
        Ok(CHANGED)
    }
}

/// A lock without an expiry.
#[derive(Debug, PartialEq, Eq)]
enum Damaged {
    Hash {
        field: String,
        count: u32,
        fields: u64,
        holds: Vec<Hold>,
    },
    /// A plain lock, by its value without a mark.
    Value(Vec<u8>),
}

impl Damaged {
    fn is_foreign(&self) -> bool {
        matches!(self, Self::Value(value) if plain::Value::read(value).is_none())
    }

    /// Returns the call that gives the lock a lease, if it is still the same.
    fn repair(&self, key: &Name, lease: Duration) -> Call {
        match self {
            Self::Hash { field, count, fields, .. } => expire(key, (field, *count), *fields, lease),
            Self::Value(value) => expire_value(key, value, lease),
        }
    }
}

fn damage(found: &Found) -> Option<Damaged> {
    let is_plain = found.kind == Some(Kind::Plain);
    match (&found.described.content, found.described.left) {
        (Content::Lock { fields, holds, .. }, Some(Remaining::NoExpiry)) => {
            let first = holds.first()?;
            let is_writer = first.mode == Some(Mode::Write);
            let field = format!("{}{}", first.owner, if is_writer { ":write" } else { "" });
            Some(Damaged::Hash { field, count: first.count, fields: *fields, holds: holds.clone() })
        }
        (Content::Text { bytes, is_whole: true, .. }, Some(Remaining::NoExpiry)) if is_plain => {
            let [unmarked, _] = plain::forms(bytes);
            Some(Damaged::Value(unmarked))
        }
        (Content::Number(number), Some(Remaining::NoExpiry)) if is_plain => {
            Some(Damaged::Value(number.to_string().into_bytes()))
        }
        _ => None,
    }
}

fn expired(reply: &Reply) -> Result<bool, Failure> {
    read_expired(reply)
        .ok_or_else(|| Failure::unavailable(anyhow!("the server sent an unexpected reply: {reply:?}")))
}
