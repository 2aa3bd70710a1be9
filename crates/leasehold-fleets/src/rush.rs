//! Acquires that a worker sends on order, so that a fault finds them on their way.
//!
//! Invariant: the two parties of a round are different workers, and no other task takes the names of a round.
//!
//! # How it works
//! The early worker of a round asks for one lock of each [`Way`] and policy while the server is frozen. The late worker
//! takes the same locks with new clients, which know no server before the fault.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use leasehold::Client;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::policy::{Kind, PREFIX, Policy};
use crate::user::{Journal, Options, Source, Stay, User, connect};

/// The part of a name that tells the locks of rounds from all others.
const MARK: &str = ":rush:";
/// The lease of a hold whose client learns of its loss by a check alone. The first renewal comes after the hold.
const LEASE: Duration = Duration::from_secs(15);
/// The time of each hold in milliseconds.
const STAYS_MS: std::ops::Range<u64> = 4000..5000;

/// An order of the campaign to a worker, with the number of the round.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// Open the connections of the idle clients.
    Ready(u64),
    /// Ask for the locks of the round.
    Ask(u64),
    /// Ask for the same locks with new clients.
    Rival(u64),
}

/// A way in which the early worker asks for a lock.
#[derive(Debug, Clone, Copy)]
struct Way {
    /// True for a client without other calls, which learns nothing from their answers.
    is_idle: bool,
    /// True if no watchdog renews the hold.
    is_fixed: bool,
}

const WAYS: [Way; 4] = [
    Way { is_idle: false, is_fixed: false },
    Way { is_idle: true, is_fixed: false },
    Way { is_idle: false, is_fixed: true },
    Way { is_idle: true, is_fixed: true },
];

/// Returns true if the lock belongs to this round.
pub(crate) fn is_of_round(name: &str, round: u64) -> bool {
    name.contains(&format!("{MARK}{round}:"))
}

/// Returns true if the lock belongs to a round.
pub(crate) fn is_of_a_round(name: &str) -> bool {
    name.contains(MARK)
}

/// Returns the number of locks of each policy in a round.
pub(crate) const fn locks_of_policy() -> usize {
    WAYS.len()
}

/// The letter at the end keeps the name in the slot that most names share.
fn name(policy: Policy, round: u64, lock: usize) -> String {
    format!("{PREFIX}{}{MARK}{round}:{lock}r", policy.name())
}

/// Follows orders until there are no more, and returns when all holds have ended.
pub(crate) async fn obey(
    mut orders: mpsc::UnboundedReceiver<Order>,
    options: &Options,
    journal: &Arc<Journal>,
    (sources, resource): (&[(Policy, Source)], &Client),
) -> Result<()> {
    let mut idle: Vec<Source> = Vec::new();
    let mut tasks = JoinSet::new();
    while let Some(order) = orders.recv().await {
        for (place, (policy, busy)) in sources.iter().enumerate() {
            if idle.len() <= place {
                idle.push(connect(options, *policy, LEASE).await?);
            }
            let user = |source: &Source| {
                User::new(options, (*policy, kind(*policy)), source.clone(), resource.clone())
            };
            match order {
                Order::Ready(round) => {
                    let (user, journal) = (user(&idle[place]), Arc::clone(journal));
                    // The name after those of the ways, which nobody takes later.
                    let name = name(*policy, round, WAYS.len());
                    tasks.spawn(async move {
                        user.enter(&journal, name, Stay { ms: 0, lease: None }).await;
                    });
                }
                Order::Ask(round) => {
                    for (lock, way) in WAYS.into_iter().enumerate() {
                        let user = user(if way.is_idle { &idle[place] } else { busy });
                        let (journal, name) = (Arc::clone(journal), name(*policy, round, lock));
                        let stay = Stay { ms: fastrand::u64(STAYS_MS), lease: way.is_fixed.then_some(LEASE) };
                        tasks.spawn(async move {
                            user.enter(&journal, name, stay).await;
                        });
                    }
                }
                Order::Rival(round) => {
                    let fresh = connect(options, *policy, LEASE).await?;
                    let user = user(&fresh);
                    let (journal, policy) = (Arc::clone(journal), *policy);
                    tasks.spawn(async move {
                        rival(&user, &journal, policy, round).await;
                        fresh.close().await;
                    });
                }
            }
        }
    }
    while let Some(ended) = tasks.join_next().await {
        ended.context("a task of a round panicked")?;
    }
    for source in idle {
        source.close().await;
    }
    Ok(())
}

/// Takes all locks of a policy at once.
async fn rival(user: &User, journal: &Journal, policy: Policy, round: u64) {
    let enter = |lock| {
        let stay = Stay { ms: fastrand::u64(STAYS_MS), lease: None };
        user.enter(journal, name(policy, round, lock), stay)
    };
    tokio::join!(enter(0), enter(1), enter(2), enter(3));
}

const fn kind(policy: Policy) -> Kind {
    match policy {
        Policy::Fenced => Kind::Fenced,
        _ => Kind::Lock,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::on_server;

    #[test]
    fn the_locks_of_a_round_share_the_slot_of_most_names_and_are_of_no_other_round() {
        let name = name(Policy::All, 12, 0);
        assert!(on_server(&name).as_str().starts_with("{lab}"));
        assert!(is_of_a_round(&name) && is_of_round(&name, 12));
        assert!(!is_of_round(&name, 1));
    }
}
