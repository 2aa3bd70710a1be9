//! `leasehold watch`: a line for each change between two looks.
//!
//! Invariant: watching does not disturb the locks, because nothing subscribes to their channels.

use std::collections::{BTreeMap, BTreeSet};

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

/// What is known of each name.
type Rows = BTreeMap<String, Object>;

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
    let mut before = Rows::new();
    loop {
        let next = after(arguments.every);
        let listing = tokio::select! {
            biased;
            _ = signals.next() => return Ok(0),
            listing = look(arguments, fleet) => listing?,
        };
        let unseen: Vec<_> = unseen(&before, &listing).cloned().collect();
        let looked = tokio::select! {
            biased;
            _ = signals.next() => return Ok(0),
            looked = again(fleet, &unseen) => looked,
        };
        let is_read = print(arguments, &mut before, listing, looked);
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

/// Returns the names that were in the listing before and are not in this one.
fn unseen<'a>(before: &'a Rows, listing: &Listing) -> impl Iterator<Item = &'a String> {
    let listed: BTreeSet<_> = listing.objects.iter().map(|object| object.name.clone()).collect();
    before.keys().filter(move |name| !listed.contains(*name))
}

/// Looks at names on the server: a listing has no name beyond its limit, and none that no client and no waiter names.
async fn again(fleet: &Fleet, names: &[String]) -> Vec<Object> {
    if names.is_empty() {
        return Vec::new();
    }
    // What cannot be read says nothing.
    fleet.sample(names).await.map(|listing| listing.objects).unwrap_or_default()
}

/// Prints what has changed. Returns false if the output is closed.
fn print(arguments: &Watch, before: &mut Rows, listing: Listing, looked: Vec<Object>) -> bool {
    let (text, after) = compared(arguments, before, listing, looked);
    *before = after;
    try_write_to_stdout(&text)
}

/// Returns the lines of what has changed, and what to compare with the next time.
fn compared(arguments: &Watch, before: &mut Rows, listing: Listing, looked: Vec<Object>) -> (String, Rows) {
    let at = listing.at;
    let mut after: Rows = listing.objects.into_iter().map(|object| (object.name.clone(), object)).collect();
    let mut text = String::new();
    let mut say = |before: Option<&Object>, object: &Object| {
        changes(before, object)
            .iter()
            .for_each(|change| text.push_str(&line(arguments, &at, object, change)));
    };
    after.values().for_each(|object| say(before.get(&object.name), object));
    for object in looked.into_iter().filter(|object| object.holders.is_empty()) {
        // A free name is told once and not kept, because there may be any number of them.
        if let Some(known) = before.remove(&object.name) {
            say(Some(&known), &object);
        }
    }
    for (name, known) in std::mem::take(before) {
        after.entry(name).or_insert(known);
    }
    (text, after)
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
