//! `leasehold repair`: gives a lock without an expiry a lease.
//!
//! Invariant: the lock is seen twice without a change before it is touched, and the script compares it once more.

use anyhow::anyhow;
use leasehold_proto::operate::{Content, Hold, Mode, expire, read_expired};
use leasehold_proto::{Remaining, Reply};

use crate::arguments::operator::{Damage, Repair};
use crate::clock::{after, reached};
use crate::command::confirm::confirmed;
use crate::command::fleet;
use crate::command::show::text;
use crate::duration::shown;
use crate::exit::Failure;
use crate::fleet::{Fleet, Found};
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
    let Repair { name, lease, yes, .. } = arguments;
    fleet.refuse_quorum()?;
    let listing = fleet.show(name).await?;
    let Some(damage) = damage(&fleet.look(name, None).await?) else {
        write_to_stdout("there is nothing to repair: the name is free, or it expires\n");
        return Ok(SOUND);
    };
    if let Some(object) = listing.objects.first() {
        write_to_stdout(&text(&listing, object, Style { width: None, has_color: false }));
    }
    if !yes && !confirmed(name)? {
        return Ok(DECLINED);
    }
    write_to_stdout(&format!("looking again in {}\n", shown(*lease)));
    reached(Some(after(*lease))).await;
    let is_same = self::damage(&fleet.look(name, None).await?).is_some_and(|again| again == damage);
    let call = expire(&fleet.key(name)?, (&damage.field, damage.count), damage.fields, *lease);
    let is_repaired = is_same && expired(&fleet.run(call).await?)?;
    if is_repaired {
        write_to_stdout(&format!("repaired: it ends in {}, unless a holder renews it\n", shown(*lease)));
        Ok(0)
    } else {
        write_to_stdout("the lock has changed, and was not touched\n");
        Ok(CHANGED)
    }
}

/// A lock without an expiry.
#[derive(Debug, PartialEq, Eq)]
struct Damaged {
    field: String,
    count: u32,
    fields: u64,
    holds: Vec<Hold>,
}

fn damage(found: &Found) -> Option<Damaged> {
    match (&found.described.content, found.described.left) {
        (Content::Lock { fields, holds, .. }, Some(Remaining::NoExpiry)) => {
            let first = holds.first()?;
            let is_writer = first.mode == Some(Mode::Write);
            let field = format!("{}{}", first.owner, if is_writer { ":write" } else { "" });
            Some(Damaged { field, count: first.count, fields: *fields, holds: holds.clone() })
        }
        _ => None,
    }
}

fn expired(reply: &Reply) -> Result<bool, Failure> {
    read_expired(reply)
        .ok_or_else(|| Failure::unavailable(anyhow!("the server gave a strange reply: {reply:?}")))
}
