//! The rules that hold at each moment of the world.

use std::collections::BTreeSet;

use leasehold_proto::{Call, Owner, Verb, WireOwner};

use super::World;
use super::budget::shown;
use super::server::owner_of;

impl World {
    /// Checks G5 and D3, by which a renewed hold is claimed, held and not released.
    pub(super) fn check_renewal(&mut self, call: &Call, claimed: &[String], released: &[String]) {
        let is_plain_renewal = self.budget.plain && call.verb() == Verb::Renew;
        if call.argument("count") != Some("0") && !is_plain_renewal {
            return; // Not a renewal. A re-entry renews too, but sets a count.
        }
        let owner = owner_of(call).to_owned();
        if released.contains(&owner) {
            self.broken.get_or_insert("D3: a renewal was sent after the release");
        }
        // A re-entry of a plain lock looks as a renewal does, and an unclaimed hold may be re-entered.
        let may_reenter = is_plain_renewal && self.clients.iter().any(|client| client.users.len() > 1);
        if !claimed.contains(&owner) && !may_reenter {
            self.broken.get_or_insert("G5: a renewal was sent for an unclaimed hold");
        }
    }

    /// Returns the wire owners of the holds that a client's users have, lost or not.
    pub(super) fn claimed(&self, index: usize) -> Vec<String> {
        let client = &self.clients[index];
        client
            .holds()
            .filter_map(|hold| client.engine.wire_owner(hold))
            .map(|owner| self.shown(owner))
            .collect()
    }

    /// Returns a wire owner as the server has it.
    fn shown(&self, owner: WireOwner) -> String {
        shown(self.budget, owner)
    }

    pub(super) fn check(&mut self) {
        if self.deleted {
            // Assumption A4 is broken, so the holder whose key was deleted finds out at its next renewal (L6).
            return;
        }
        let valid: BTreeSet<_> = (0..self.clients.len()).flat_map(|index| self.valid(index)).collect();
        if valid.len() > 1 {
            self.broken.get_or_insert("L1: two holds are valid at one moment");
        }
        if !valid.iter().all(|(wire, _)| self.server.is_held_by(wire, self.now)) {
            self.broken.get_or_insert("M: a hold is valid that the server does not keep");
        }
    }

    /// Returns the wire owners and the owners under which a client's users may act. A suspended process counts, because it
    /// acts when it resumes.
    pub(super) fn valid(&self, index: usize) -> Vec<(String, Owner)> {
        let client = &self.clients[index];
        let valid =
            client.holds().filter(|hold| client.alive && client.engine.is_held(*hold, self.clock(index)));
        let owners = |hold| Some((self.shown(client.engine.wire_owner(hold)?), client.engine.held(hold)?.1));
        valid.filter_map(owners).collect()
    }
}
