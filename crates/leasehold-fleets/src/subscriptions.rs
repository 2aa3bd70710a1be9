//! Checks that every waiter has its subscription, as the servers count them.
//!
//! Invariant: a missing subscription is certain, because its waiter waited before the count and after it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use leasehold_testkit::servers::RedisServer;

use crate::clock::{SECOND, now};
use crate::fleet::Fleet;
use crate::policy::{Kind, PREFIX, Policy, on_server};
use crate::workers::Workers;

/// The age of a waiter that has to listen: a first call, whatever it needs, and the subscription are over.
const LISTENS_AFTER: u64 = SECOND;
/// The time limit for all waiters to listen after a fault.
const ALIVE_WITHIN: u64 = 6 * SECOND;
/// The time after which no waiter at all is an answer too.
const WAITS_WITHIN: u64 = 2 * SECOND;
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A count of the subscriptions after one fault.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Listeners {
    /// The waiters of a client for one name, which share a subscription.
    pub waiting: usize,
    /// Those whose subscription a server counts.
    pub alive: usize,
}

/// One client with waiters for a name: the worker and its policy.
type Subject = (usize, Policy, String);

/// Counts the subscriptions of the waiters that have waited for a second, until all are alive or the time is over.
///
/// # Errors
/// A log cannot be read.
pub(crate) fn listeners(fleet: &Fleet, workers: &mut Workers) -> Result<Listeners> {
    let began = now();
    loop {
        let before = waiting(workers)?;
        let counts = counts(fleet);
        let after = waiting(workers)?;
        // A waiter that ended meanwhile may have unsubscribed. One that is still there must have been counted.
        let mut wanted: BTreeMap<&str, u64> = BTreeMap::new();
        let mut all = 0;
        for ((_, _, name), _) in before.iter().filter(|(subject, number)| after.get(*subject) == Some(number))
        {
            *wanted.entry(name).or_default() += 1;
            all += 1;
        }
        let alive = |(name, wanted): (&&str, &u64)| count_of(&counts, name).min(*wanted);
        let found: u64 = wanted.iter().map(alive).sum();
        let listeners = Listeners { waiting: all, alive: usize::try_from(found).unwrap_or(usize::MAX) };
        let limit = if all == 0 { WAITS_WITHIN } else { ALIVE_WITHIN };
        if (all > 0 && listeners.alive == all) || now() - began > limit {
            return Ok(listeners);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Returns the oldest attempt of each subject that has waited for long enough, and whose client does not hold the name.
fn waiting(workers: &mut Workers) -> Result<BTreeMap<Subject, u64>> {
    workers.read()?;
    let since = now().saturating_sub(LISTENS_AFTER);
    let mut subjects = BTreeMap::new();
    for (worker, log) in workers.logs().iter().enumerate() {
        let mut waiters: Vec<_> = log.waiters().iter().collect();
        waiters.sort_unstable_by_key(|(_, waiter)| waiter.at);
        for (number, waiter) in waiters {
            let asks = waiter.kind != Kind::Probe && !log.holds(waiter.policy, &waiter.name);
            if waiter.at < since && asks {
                subjects.entry((worker, waiter.policy, waiter.name.clone())).or_insert(*number);
            }
        }
    }
    Ok(subjects)
}

/// Returns the subscribers of each channel of the laboratory, at the nodes that serve.
fn counts(fleet: &Fleet) -> BTreeMap<String, u64> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for node in fleet.masters() {
        for (channels, numbers) in [("CHANNELS", "NUMSUB"), ("SHARDCHANNELS", "SHARDNUMSUB")] {
            for (channel, number) in subscribers(node, channels, numbers) {
                *counts.entry(channel).or_default() += number;
            }
        }
    }
    counts
}

/// Returns the number of channels of the laboratory that have subscribers at any node that is up.
pub(crate) fn channels(fleet: &Fleet) -> usize {
    let of = |node: &RedisServer| names(node, "CHANNELS").len() + names(node, "SHARDCHANNELS").len();
    fleet.nodes().iter().filter(|node| node.is_up()).map(of).sum()
}

fn names(node: &RedisServer, verb: &str) -> Vec<String> {
    // A server before Redis 7 has no sharded channels.
    let Ok(reply) = node.command(&["PUBSUB", verb, &format!("*{PREFIX}*")]) else { return Vec::new() };
    reply.list().iter().map(|channel| channel.text().to_owned()).collect()
}

fn subscribers(node: &RedisServer, channels: &str, numbers: &str) -> Vec<(String, u64)> {
    let names = names(node, channels);
    if names.is_empty() {
        return Vec::new();
    }
    let command: Vec<&str> =
        ["PUBSUB", numbers].into_iter().chain(names.iter().map(String::as_str)).collect();
    let Ok(reply) = node.command(&command) else { return Vec::new() };
    let pairs = reply.list().chunks_exact(2);
    pairs
        .filter_map(|pair| Some((pair[0].text().to_owned(), u64::try_from(pair[1].number()?).ok()?)))
        .collect()
}

/// Returns the subscribers of the channels of one name, which ends in the name, perhaps in braces. A majority lock has a
/// channel on each server, so it counts once it has as many subscribers on any of them.
fn count_of(counts: &BTreeMap<String, u64>, name: &str) -> u64 {
    let name = on_server(name);
    let bare = |text: &str| text.replace(['{', '}'], "");
    let end = format!(":{}", bare(name.as_str()));
    let channels = counts.iter().filter(|(channel, _)| bare(channel).ends_with(&end));
    channels.map(|(_, number)| *number).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_channel_of_a_name_is_found_with_and_without_its_own_tag() {
        let channel = |name: &str, number| (format!("redisson_lock__channel:{name}"), number);
        let counts = BTreeMap::from([
            channel("{lab}lab:all(n):lock:1", 2),
            channel("{lab:all(n):lock:0}", 3),
            channel("{lab}lab:all(n):lock:11", 5),
        ]);
        assert_eq!(count_of(&counts, "lab:all(n):lock:1"), 2);
        assert_eq!(count_of(&counts, "lab:all(n):lock:0"), 3);
        assert_eq!(count_of(&counts, "lab:all(n):lock:2"), 0);
    }
}
