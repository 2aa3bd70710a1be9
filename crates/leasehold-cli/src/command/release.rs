//! `leasehold release`: frees one hold, after a look at it.
//!
//! Invariant: only the hold that was shown is released. Without a terminal there is no release without `--yes`.

use anyhow::anyhow;
use leasehold_proto::operate::Kind;
use serde_json::json;

use crate::arguments::operator::Release;
use crate::command::confirm::confirmed;
use crate::command::fleet;
use crate::command::show::{notices, text};
use crate::command::tickets;
use crate::exit::Failure;
use crate::fleet::object::{Holder, Object};
use crate::fleet::{Fleet, Released, Shown, is_foreign};
use crate::report::{Report, write_to_stdout};
use crate::table::Style;

/// The exit codes besides 0.
const FREE: u8 = 1;
const CHANGED: u8 = 2;
const DECLINED: u8 = 3;

/// Runs the verb and returns the exit code.
pub(crate) fn run(arguments: &Release) -> u8 {
    match &arguments.ticket {
        Some(ticket) => tickets::release(&arguments.servers.sources, ticket),
        None => fleet::run(&arguments.servers, async |fleet| release(arguments, &fleet).await),
    }
}

async fn release(arguments: &Release, fleet: &Fleet) -> Result<u8, Failure> {
    let name = &arguments.name;
    fleet.refuse_quorum()?;
    let said = arguments.foreign.then_some(Kind::Plain);
    let listing = fleet.show_as(name, said).await?;
    let Some(object) = listing.objects.first().filter(|object| !object.holders.is_empty()) else {
        return has_no_holder(arguments, listing.objects.first());
    };
    let Some(holder) = chosen(arguments, object)? else {
        return Ok(told(arguments, object, None, &Released::ChangedHands));
    };
    if holder.is_foreign() && !arguments.foreign {
        return Err(is_foreign(name));
    }
    if !arguments.json {
        write_to_stdout(&text(&listing, object, Style { width: None, has_color: false }));
    }
    if arguments.dry_run {
        return Ok(if arguments.json { told_dry(object, holder) } else { 0 });
    }
    if arguments.ask {
        let heard = fleet.ask_back(name, &holder.owner, &arguments.by).await?;
        return Ok(told_asked(arguments, object, holder, heard));
    }
    let shown = Shown::of(holder).or_foreign(arguments.foreign);
    if !arguments.yes {
        if shown.is_by_owner_alone() {
            Report::new(false).warn(format_args!(
                "the age of this hold is unknown, so a later hold of the same owner would be released instead"
            ));
        }
        if !confirmed(name)? {
            return Ok(DECLINED);
        }
    }
    let mut released = fleet.release(name, &holder.owner, Some(shown)).await?;
    if released == Released::ChangedHands {
        let now = fleet.look(name, Some(object.kind)).await?;
        if !now.is_held() {
            released = Released::WasFree;
        }
    }
    Ok(told(arguments, object, Some(holder), &released))
}

/// Returns the holder to release, or `None` if the owner does not hold the object.
fn chosen<'a>(arguments: &Release, object: &'a Object) -> Result<Option<&'a Holder>, Failure> {
    match (&arguments.owner, object.holders.as_slice()) {
        (Some(owner), holders) => Ok(holders.iter().find(|holder| holder.owner == *owner)),
        (None, [holder]) if object.holders_total == 1 => Ok(Some(holder)),
        (None, holders) => {
            let owners: Vec<_> = holders.iter().take(10).map(|holder| holder.owner.as_str()).collect();
            let count = object.holders_total;
            Err(Failure::usage(anyhow!(
                "{:?} has {count} holders; choose one with --owner: {}",
                object.name,
                owners.join(", ")
            )))
        }
    }
}

fn has_no_holder(arguments: &Release, object: Option<&Object>) -> Result<u8, Failure> {
    match object {
        Some(object) if object.value.is_some() => Err(is_foreign(&object.name)),
        Some(Object { name, stored_as: Some(stored_as), .. }) => Err(Failure::usage(anyhow!(
            "{name:?} is a {stored_as} and not a lock, and no lock of this name can be acquired while it exists; \
             nothing was released"
        ))),
        Some(object) if object.count.is_some() => {
            let Object { name, kind, .. } = object;
            Err(Failure::usage(anyhow!("{name:?} is a {kind}, which has no holders that this command knows")))
        }
        _ => {
            let name = &arguments.name;
            let text = match arguments.json {
                true => format!("{}\n", json!({ "name": name, "outcome": "free" })),
                false => format!("{name:?} is free\n"),
            };
            write_to_stdout(&crate::report::cleaned(&text));
            Ok(FREE)
        }
    }
}

/// Says whether the holder was asked.
fn told_asked(arguments: &Release, object: &Object, holder: &Holder, heard: bool) -> u8 {
    let (code, outcome, text) = match heard {
        true => (0, "asked", "asked; the program is told, and decides"),
        false => (
            CHANGED,
            "not-heard",
            "nobody with this hold has answered; it may be of another library, hidden, or over",
        ),
    };
    let json = json!({ "name": object.name, "outcome": outcome, "owner": holder.owner });
    write_to_stdout(&if arguments.json { format!("{json}\n") } else { format!("{text}\n") });
    code
}

fn told_dry(object: &Object, holder: &Holder) -> u8 {
    let text = json!({ "name": object.name, "outcome": "dry-run", "owner": holder.owner });
    write_to_stdout(&format!("{text}\n"));
    0
}

/// Says what became of the hold.
fn told(arguments: &Release, object: &Object, holder: Option<&Holder>, released: &Released) -> u8 {
    let (code, outcome) = match released {
        Released::Done => (0, "released"),
        Released::WasFree => (FREE, "free"),
        Released::ChangedHands => (CHANGED, "changed-hands"),
    };
    let owner = holder.map(|holder| holder.owner.as_str()).or(arguments.owner.as_deref());
    let text = match (arguments.json, code) {
        (true, _) => json!({ "name": object.name, "outcome": outcome, "owner": owner }).to_string(),
        (false, 0) => format!("released; {}", holder.map(notices).unwrap_or_default()),
        (false, _) => released.to_string(),
    };
    write_to_stdout(&format!("{}\n", crate::report::cleaned(&text)));
    code
}
