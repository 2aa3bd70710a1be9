//! Decides which objects of a listing get a warning.
//!
//! Invariant: a warning says what is seen, and no more. Two processes that each wait for what the other holds are only
//! a possible deadlock, because the tasks that hold may not be the tasks that wait.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_proto::operate::Kind;

use super::chain::holder;
use super::object::{Form, Holder, Object, Warning};
use super::rows::Rows;
use crate::duration::shown_ms;

/// A hold is long if it is this many times as long as the median of its group, and longer than a minute.
const LONG: u64 = 10;
/// The shortest long hold or wait.
const MINUTE_MS: u64 = 60_000;
/// The part of a lease below which a renewal is late, as a divisor. The watchdog renews with two thirds left.
const LATE: u64 = 3;

/// The names of all warnings.
const NAMES: [&str; 10] = [
    "no-expiry",
    "silent-client",
    "unknown-client",
    "long-hold",
    "long-wait",
    "process-cycle",
    "late-renewal",
    "dead-queue-entry",
    "mixed-kinds",
    "over-released",
];

/// Adds the warnings.
pub(super) fn add(objects: &mut [Object], rows: &Rows) {
    let medians = medians(objects);
    let cycles = cycles(rows);
    for object in objects.iter_mut() {
        let mut warnings = Vec::new();
        of_holders(object, rows, &mut warnings);
        of_state(object, rows, &mut warnings);
        let median = medians.get(&group(&object.name)).copied().unwrap_or(0);
        if let Some(age) = object.longest_hold_ms()
            && age > MINUTE_MS
            && age > median.saturating_mul(LONG)
            && median > 0
        {
            warnings.push(warn(
                "long-hold",
                format!(
                    "held for {}; half of its group is held for less than {}",
                    shown_ms(age),
                    shown_ms(median)
                ),
            ));
        }
        if let Some(wait) = object.waiting.longest_ms.filter(|wait| *wait > MINUTE_MS) {
            warnings.push(warn("long-wait", format!("an acquire has waited for {}", shown_ms(wait))));
        }
        if let Some(other) = cycles.get(&object.key) {
            warnings.push(warn(
                "process-cycle",
                format!(
                    "possible deadlock with {other:?}: its holder waits here, and the holder here waits there"
                ),
            ));
        }
        object.warnings = warnings;
    }
}

fn warn(name: &'static str, text: impl Into<String>) -> Warning {
    debug_assert!(NAMES.contains(&name), "{name} is no warning");
    Warning { name, text: text.into() }
}

fn of_holders(object: &Object, rows: &Rows, warnings: &mut Vec<Warning>) {
    let clients: BTreeSet<_> = object.holders.iter().filter_map(|holder| holder.client.as_deref()).collect();
    for client in clients {
        let known = client.parse().ok().and_then(|client| rows.clients.get(&client));
        match known {
            Some(known) if known.has_answered => {}
            Some(_) => warnings.push(warn("silent-client", format!("the holder {client} does not answer"))),
            // Redisson has no cards, so such a client is the usual case where no client has one.
            None if rows.clients.values().any(|known| known.has_answered) => {
                warnings.push(warn(
                    "unknown-client",
                    format!(
                        "the holder {client} has no card; it is Redisson, a client that is not visible, or one that has \
                         not renewed a hold yet"
                    ),
                ));
            }
            None => {}
        }
    }
    let is_unseen =
        |holder: &&Holder| holder.client.is_none() && holder.form.is_some_and(|form| form != Form::Foreign);
    if let Some(Holder { owner, .. }) = object.holders.iter().find(is_unseen)
        && rows.clients.values().any(|known| known.has_answered)
    {
        warnings.push(warn(
            "unknown-client",
            format!(
                "the holder {owner} has no card; it is a client of this library that is not visible, has not renewed \
                 a hold yet, or has ended"
            ),
        ));
    }
    let is_late = |holder: &&Holder| {
        let left = holder.lease_ms.zip(holder.whole_lease_ms);
        holder.renewed == Some(true) && left.is_some_and(|(left, whole)| left < whole / LATE)
    };
    if let Some(holder) = object.holders.iter().find(is_late) {
        let [left, lease] = [holder.lease_ms, holder.whole_lease_ms].map(|ms| shown_ms(ms.unwrap_or(0)));
        warnings.push(warn(
            "late-renewal",
            format!("{left} of the {lease} lease are left, although the client renews it"),
        ));
    }
}

fn of_state(object: &Object, rows: &Rows, warnings: &mut Vec<Warning>) {
    if object.kind.has_lease() && !object.holders.is_empty() && object.expires_ms.is_none() {
        let text = if object.holders.iter().any(Holder::is_foreign) {
            "the lock never expires, because another library wrote it without a lease; it ends when its holder \
             releases it"
        } else {
            "the lock never expires, although every lock has a lease"
        };
        warnings.push(warn("no-expiry", text));
    }
    let dead = object.waiting.queue.iter().filter(|place| place.dead).count();
    if dead > 0 {
        warnings.push(warn(
            "dead-queue-entry",
            format!("{dead} waiters in the queue are dead, and the next call removes them"),
        ));
    }
    let kinds = rows.names.get(&object.key).map(super::rows::Row::kinds).unwrap_or_default();
    let others: Vec<_> = kinds.iter().filter(|kind| **kind != object.kind).map(|kind| kind.name()).collect();
    if !others.is_empty() {
        warnings.push(warn(
            "mixed-kinds",
            format!("a {} here, and clients use a {}", object.kind, others.join(" and a ")),
        ));
    }
    if object.kind == Kind::Semaphore
        && let Some(permits) = object.permits
        && permits.available < 0
    {
        warnings.push(warn("over-released", format!("{} permits are available", permits.available)));
    }
}

/// Returns the group of a name: what is in front of its first digit.
fn group(name: &str) -> String {
    name.split(|letter: char| letter.is_ascii_digit()).next().unwrap_or_default().to_owned()
}

/// Returns the median of the holds of each group with at least three of them.
fn medians(objects: &[Object]) -> BTreeMap<String, u64> {
    let mut ages: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for object in objects {
        ages.entry(group(&object.name)).or_default().extend(object.longest_hold_ms());
    }
    let median = |mut ages: Vec<u64>| {
        ages.sort_unstable();
        ages[ages.len() / 2]
    };
    ages.into_iter().filter(|(_, ages)| ages.len() >= 3).map(|(group, ages)| (group, median(ages))).collect()
}

/// Returns pairs of names whose holders wait for each other, by key.
fn cycles(rows: &Rows) -> BTreeMap<String, String> {
    let mut awaited: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for (key, row) in &rows.names {
        for (client, _) in &row.waiting {
            awaited.entry(*client).or_default().push(key);
        }
    }
    let mut found = BTreeMap::new();
    for key in rows.names.keys() {
        let Some(here) = holder(key, rows) else { continue };
        for other in awaited.get(&here).into_iter().flatten() {
            let Some(there) = holder(other, rows).filter(|there| *there != here) else { continue };
            if awaited.get(&there).is_some_and(|keys| keys.contains(&key.as_str())) {
                found.insert(key.clone(), (*other).to_owned());
            }
        }
    }
    found
}
