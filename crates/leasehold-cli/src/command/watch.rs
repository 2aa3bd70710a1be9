//! `leasehold watch`: a line for each change between two looks.
//!
//! Invariant: the locks do not notice, because nothing subscribes to their channels.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::arguments::operator::Watch;
use crate::clock::{after, reached};
use crate::command::fleet;
use crate::command::list::holder_name;
use crate::exit::Failure;
use crate::fleet::object::{Listing, Object};
use crate::fleet::{Fleet, Query, ScanRule};
use crate::report::{Report, try_write_to_stdout};
use crate::signals::Signals;
use crate::table::clean;

/// The most objects behind a pattern.
const MOST: usize = 1000;

/// A change, as JSON.
#[derive(Debug, Serialize)]
struct Line<'a> {
    at: &'a str,
    change: &'a str,
    #[serde(flatten)]
    object: &'a Object,
}

/// Runs the verb and returns the exit code.
pub(crate) fn run(arguments: &Watch) -> u8 {
    fleet::run(&arguments.servers, async |fleet| watch(arguments, &fleet).await)
}

async fn watch(arguments: &Watch, fleet: &Fleet) -> Result<u8, Failure> {
    let mut signals = Signals::ending().map_err(Failure::system)?;
    if !arguments.json {
        let every = crate::duration::shown(arguments.every);
        Report::new(false)
            .warn(format_args!("sampled every {every}: what changes back in between is not seen"));
    }
    let mut before = BTreeMap::new();
    loop {
        let next = after(arguments.every);
        let listing = tokio::select! {
            biased;
            _ = signals.next() => return Ok(0),
            listing = look(arguments, fleet) => listing?,
        };
        let is_read = print(arguments, &mut before, listing);
        if !is_read {
            return Ok(0);
        }
        tokio::select! {
            biased;
            _ = signals.next() => return Ok(0),
            () = reached(Some(next)) => {}
        }
    }
}

async fn look(arguments: &Watch, fleet: &Fleet) -> Result<Listing, Failure> {
    match &arguments.pattern {
        None => fleet.sample(&arguments.names).await,
        Some(pattern) => {
            let names = Some(pattern.clone());
            let query = Query { names, limit: Some(MOST), scan: ScanRule::Never, ..Query::default() };
            fleet.list(&query).await
        }
    }
}

/// Prints what has changed. Returns false if the output is closed.
fn print(arguments: &Watch, before: &mut BTreeMap<String, Object>, listing: Listing) -> bool {
    let at = listing.at;
    let mut after: BTreeMap<_, _> =
        listing.objects.into_iter().map(|object| (object.name.clone(), object)).collect();
    // A name that is in no listing any more is free.
    for (name, object) in before.iter() {
        after.entry(name.clone()).or_insert_with(|| object.freed());
    }
    let lines = after.values().flat_map(|object| {
        let changes = changes(before.get(&object.name), object);
        changes.into_iter().map(|change| line(arguments, &at, object, &change)).collect::<Vec<_>>()
    });
    let text: String = lines.collect();
    *before = after;
    try_write_to_stdout(&text)
}

fn line(arguments: &Watch, at: &str, object: &Object, change: &str) -> String {
    if arguments.json {
        let line = Line { at, change, object };
        return serde_json::to_string(&line).expect("the form has only texts and numbers") + "\n";
    }
    format!("{at}  {}  {}\n", clean(&object.name), clean(change))
}

/// Returns what is different, in words.
fn changes(before: Option<&Object>, object: &Object) -> Vec<String> {
    let mut changes = Vec::new();
    let names = |object: &Object| object.holders.iter().map(holder_name).collect::<Vec<_>>().join(", ");
    let owners = |object: &Object| {
        let mut owners: Vec<_> =
            object.holders.iter().map(|holder| (holder.owner.clone(), holder.side)).collect();
        owners.sort();
        owners
    };
    let (old, new) = (before.map(owners).unwrap_or_default(), owners(object));
    match (before, old.is_empty(), new.is_empty()) {
        (None, _, true) => changes.push("free".to_owned()),
        (None, _, false) => changes.push(format!("held by {}", names(object))),
        (Some(_), true, false) => changes.push(format!("taken by {}", names(object))),
        (Some(_), false, true) => changes.push("free".to_owned()),
        (Some(before), false, false) if old != new => {
            changes.push(format!("passed on from {} to {}", names(before), names(object)));
        }
        _ => {}
    }
    let waits = before.map_or(0, |object| object.waiting.most());
    match (before, object.waiting.most()) {
        (_, now) if now == waits => {}
        (None, now) => changes.push(format!("waiters: {now}")),
        (Some(_), now) => changes.push(format!("waiters: {waits} to {now}")),
    }
    let number = |object: &Object| object.permits.map(|permits| permits.available).or(object.count);
    if before.is_some() && before.and_then(number) != number(object) {
        let shown =
            |number: Option<i64>| number.map_or_else(|| "none".to_owned(), |number| number.to_string());
        changes.push(format!("number: {} to {}", shown(before.and_then(number)), shown(number(object))));
    }
    changes
}
