//! An engine that does the same as another one, with an observer and without a lane.

use leasehold_proto::engine::{Action, Detail, Event, Fact, Grant, GrantedBy, Id, Outcome};
use leasehold_proto::{Engine, Moment};

use super::{TICK, World};

/// The engine, and the sums of its facts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Observed {
    engine: Engine,
    /// True if the other engine has an observer too, and tells the same.
    both_tell: bool,
    waiting: i64,
    held: i64,
}

impl Observed {
    fn new(engine: &Engine, both_tell: bool) -> Self {
        let mut engine = engine.clone();
        observe(&mut engine);
        engine.close_lane();
        Self { engine, both_tell, waiting: 0, held: 0 }
    }

    /// Claims the grant whose offer was taken.
    pub(super) fn claim(&mut self, now: Moment, id: Id, grant: Grant) -> Option<&'static str> {
        let actions = self.engine.step(now, Event::Claim(id));
        let claimed = Action::Complete(id, Outcome::Acquired(Ok(grant)));
        let facts = self.facts();
        self.count(&facts).or((!actions.contains(&claimed)).then_some("an offer is no grant"))
    }

    /// Steps the engine with the same event. Returns the rule that is broken.
    pub(super) fn step(
        &mut self,
        now: Moment,
        event: Event,
        (expected, told): (&[Action], &[Fact]),
    ) -> Option<&'static str> {
        // The validity of a hold whose offer was taken is not published.
        let decides = |action: &&Action| self.both_tell || !matches!(action, Action::Trusted(..));
        let actions = self.engine.step(now, event);
        if !actions.iter().filter(decides).eq(expected.iter().filter(decides)) {
            return Some("facts or the lane change a decision");
        }
        let facts = self.facts();
        if self.both_tell && facts != told {
            return Some("the lane changes a fact");
        }
        self.count(&facts)
    }

    fn facts(&mut self) -> Vec<Fact> {
        let mut facts = Vec::new();
        self.engine.take_facts(&mut facts);
        facts
    }

    /// Counts what the facts tell. Returns the rule that is broken.
    fn count(&mut self, facts: &[Fact]) -> Option<&'static str> {
        for fact in facts {
            match fact {
                Fact::Waiting { .. } => self.waiting += 1,
                Fact::Acquired { told, by, .. } => {
                    self.waiting -= i64::from(told.waiting);
                    self.held += i64::from(*by != GrantedBy::Event);
                }
                Fact::NotAcquired { told, .. } => self.waiting -= i64::from(told.waiting),
                Fact::Released { .. } | Fact::Lost { .. } => self.held -= 1,
                _ => {}
            }
        }
        (self.waiting < 0 || self.held < 0).then_some("an end is told twice")
    }

    /// Returns the rule that is broken when nothing is held or waited for.
    pub(super) fn at_end(&self) -> Option<&'static str> {
        (self.waiting != 0 || self.held != 0).then_some("an end is not told")
    }
}

fn observe(engine: &mut Engine) {
    engine.observe(TICK * 3, Detail::All);
}

impl World {
    /// Lets an observer be told of all that the clients decide. Every other client tells it too, and has no offers then.
    pub(crate) fn observe(&mut self) {
        for (index, client) in self.clients.iter_mut().enumerate() {
            let both_tell = index % 2 == 1;
            if both_tell {
                observe(&mut client.engine);
            }
            client.observed = Some(Observed::new(&client.engine, both_tell));
        }
    }

    /// Returns the rule about facts that is broken once nothing is held or waited for.
    pub(crate) fn broken_by_facts(&self) -> Option<&'static str> {
        self.clients
            .iter()
            .filter(|client| client.alive)
            .find_map(|client| client.observed.as_ref()?.at_end())
    }
}
