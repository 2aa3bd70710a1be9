//! Users that take offers: every other acquire of a client takes its grant without a claim.

use leasehold_proto::Moment;
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
}

impl Client {
    /// Says which of the offers in question were taken. A release shows it by itself, and its hold was never published.
    pub(super) fn resolve_offers(&mut self, now: Moment, event: &Event) {
        for id in self.engine.offers_in_question(now, event) {
            if self.taken.remove(&id) {
                self.engine.claim_taken(id);
            }
        }
        if let Event::Release { hold, .. } = event
            && self.taken.remove(hold)
        {
            self.trusted.remove(hold);
        }
    }
}
