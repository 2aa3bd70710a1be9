//! Users that take offers: every other one takes its grant without a claim.

use leasehold_proto::engine::{Event, Id, Offer};

use super::{Client, User, World};

impl World {
    /// Takes the offer of a user, if there is one that the user takes.
    pub(super) fn take_offer(&mut self, index: usize, user: usize, id: Id) -> bool {
        let now = self.clock(index);
        let client = &mut self.clients[index];
        let offer = client.engine.offer(id).filter(|offer| id.0 % 2 == 1 && now < offer.until);
        let Some(Offer { grant, valid_until, .. }) = offer else { return false };
        client.trusted.insert(id, valid_until);
        client.taken.insert(id);
        client.users[user] = User::Holding(id);
        client.granted += 1;
        if let Some(observed) = &mut client.observed {
            self.broken = self.broken.or(observed.claim(now, id, grant));
        }
        true
    }

    /// Recalls an offer. One that is taken is claimed.
    pub(super) fn recall(&mut self, index: usize, id: Id) {
        if self.clients[index].taken.remove(&id) {
            self.clients[index].is_recalled = true;
            let claimed = self.step(index, Event::Claim(id));
            self.clients[index].is_recalled = false;
            let is_lost = claimed.is_none().then_some("a taken offer is recalled and cannot be claimed");
            self.broken = self.broken.or(is_lost);
        }
    }
}

impl Client {
    /// Forgets the offer of a hold that its user ends. Nothing of it was published.
    pub(super) fn leave_offer(&mut self, hold: Id, event: &Event) {
        if self.taken.remove(&hold)
            && matches!(event, Event::Release { .. })
            && self.engine.offer(hold).is_some()
        {
            self.trusted.remove(&hold);
        }
    }
}
