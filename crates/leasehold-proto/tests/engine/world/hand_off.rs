//! The rules of the hand-off, judged from outside: which guard uses which hold of the server, and since when.
//!
//! Invariant: a hold that passes on has one guard before and one after, and no time between them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold_proto::engine::{Id, Outcome};
use leasehold_proto::{Moment, Owner, WireOwner};

use super::budget::shown;
use super::{Budget, Client, TICK, User, World};

/// The longest hold of the user that bounds its holds. It ends before the lease does.
pub(crate) const MAX_HOLD: Duration = Duration::from_millis(150);

/// The holds of one client, as its users see them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Passing {
    /// The present guards of each hold of the server, and the time of the grant.
    guards: BTreeMap<WireOwner, (BTreeSet<Id>, Moment)>,
    /// The owner of each of them.
    owners: BTreeMap<WireOwner, Owner>,
    /// The holds that the server has reported as gone.
    pub(crate) gone: BTreeSet<String>,
    /// The ends of the bounds that a question has extended.
    extended: BTreeMap<String, Moment>,
    /// The number of holds that passed on.
    pub(crate) passed: u32,
}

impl Passing {
    /// Notes an answer that no other client listens. In time, it extends the bound of the hold.
    pub(super) fn note_alone(&mut self, wire: &str, now: Moment, budget: Budget) {
        let bound = TICK * budget.passes_for;
        let is_known = |known: WireOwner| shown(budget, known) == wire;
        let Some((_, (_, granted_at))) = self.guards.iter().find(|(known, _)| is_known(**known)) else {
            return;
        };
        let until = self.extended.get(wire).copied().unwrap_or(*granted_at + bound);
        if now < until {
            self.extended.insert(wire.to_owned(), now + bound);
        }
    }
}

impl World {
    /// Returns the number of connections of a client and of the others that listen. In a model, the waiters of other clients
    /// poll, and count as listeners.
    pub(super) fn listeners(&self, asking: usize) -> (i64, i64) {
        let listens = |client: &Client| {
            let waits = |user: &User| matches!(user, User::Waiting { .. });
            let polls = self.budget.terse && client.users.iter().any(waits);
            client.alive && (polls || !client.channels.is_empty())
        };
        let own = i64::from(!self.clients[asking].channels.is_empty());
        let others =
            self.clients.iter().enumerate().filter(|(index, other)| *index != asking && listens(other));
        (own, i64::try_from(others.count()).unwrap())
    }

    /// Checks G5 and D3 for the questions of one step: their holds are claimed, at the latest by this step, and not released.
    pub(super) fn check_questions(
        &mut self,
        asked: &[String],
        (claimed, released): (&[String], &[String]),
        settled: Option<&Outcome>,
    ) {
        let taken = match settled {
            Some(Outcome::Acquired(Ok(grant))) => Some(shown(self.budget, grant.wire)),
            _ => None,
        };
        if asked.iter().any(|owner| released.contains(owner)) {
            self.broken.get_or_insert("D3: a question was sent after the release");
        }
        if !asked.iter().all(|owner| claimed.contains(owner) || taken.as_ref() == Some(owner)) {
            self.broken.get_or_insert("G5: a question was sent for an unclaimed hold");
        }
    }
}

impl Client {
    /// Wakes the user of a ticket or a guard. Returns the rule that is broken if no user has it.
    pub(super) fn wake(&mut self, woken: Id) -> Option<&'static str> {
        for user in &mut self.users {
            match user {
                User::Waiting { id, news } if *id == woken => {
                    *news = true;
                    return None;
                }
                User::Holding(id) if *id == woken => return None,
                _ => {}
            }
        }
        self.engine.wire_owner(woken).map(|_| "a hold passes to a waiter that has left")
    }

    /// Notes what a step has changed. Returns the wire owners of the holds that passed on, each with the rule that this
    /// breaks.
    pub(super) fn note_guards(
        &mut self,
        index: usize,
        now: Moment,
        budget: Budget,
    ) -> Vec<(String, Option<&'static str>)> {
        let mut passed = Vec::new();
        if self.users.len() == 1 {
            // Fewer states for the models of one user.
            return passed;
        }
        let mut guards: BTreeMap<WireOwner, (BTreeSet<Id>, Moment)> = BTreeMap::new();
        let mut owners = BTreeMap::new();
        for user in &self.users {
            let (User::Waiting { id, .. } | User::Holding(id)) = user else { continue };
            if let Some(wire) = self.engine.wire_owner(*id) {
                let granted_at = self.passing.guards.get(&wire).map_or(now, |(_, granted_at)| *granted_at);
                guards.entry(wire).or_insert((BTreeSet::new(), granted_at)).0.insert(*id);
                owners.extend(self.engine.held(*id).map(|(_, owner)| (wire, owner)));
            }
        }
        let before = std::mem::replace(&mut self.passing.guards, guards);
        let before_owners = std::mem::replace(&mut self.passing.owners, owners);
        for (wire, (ids, granted_at)) in &self.passing.guards {
            // A guard of the same owner enters beside the first one, which may end before it is claimed.
            let is_same = before_owners.get(wire) == self.passing.owners.get(wire);
            if !is_same && before.get(wire).is_some_and(|(before, _)| before.is_disjoint(ids)) {
                self.passing.passed += 1;
                let bound = *granted_at + TICK * budget.passes_for;
                let until = self.passing.extended.get(&shown(budget, *wire)).copied().unwrap_or(bound);
                let rules =
                    ids.iter().map(|id| self.rule_broken_by(index, (*id, *wire), (now, until), budget));
                passed.push((shown(budget, *wire), rules.flatten().next()));
            }
        }
        passed
    }

    fn rule_broken_by(
        &self,
        index: usize,
        (id, wire): (Id, WireOwner),
        (now, until): (Moment, Moment),
        budget: Budget,
    ) -> Option<&'static str> {
        let is_user =
            |user: &User| matches!(user, User::Waiting { id: of, .. } | User::Holding(of) if *of == id);
        let user = self.users.iter().position(is_user)?;
        let is_bounded = budget.bounded && has_max_hold(index, user);
        if now >= until {
            Some("L4: a hold passes on after its bound")
        } else if is_bounded && self.engine.remaining(id, now) > MAX_HOLD {
            Some("a hold passes on past the longest hold of the next guard")
        } else if self.passing.gone.contains(&shown(budget, wire)) {
            Some("a lost hold passes on")
        } else {
            None
        }
    }
}

/// Returns true if a user bounds its holds: the last user of the last of two clients.
pub(super) const fn has_max_hold(client: usize, user: usize) -> bool {
    client == 1 && user == 1
}
