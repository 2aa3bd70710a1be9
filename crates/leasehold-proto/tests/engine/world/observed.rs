//! An engine that does the same as another one, with an observer.

use leasehold_proto::engine::{Action, Detail, Event, Fact, Grant, GrantedBy, Id, Outcome};
use leasehold_proto::{Engine, Moment};

use super::{TICK, World};

/// The engine, and the sums of its facts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Observed {
    engine: Engine,
    waiting: i64,
    held: i64,
}

impl Observed {
    pub(super) fn new(engine: &Engine) -> Self {
        let mut engine = engine.clone();
        engine.observe(TICK * 3, Detail::All);
        Self { engine, waiting: 0, held: 0 }
    }

    /// Claims the grant whose offer was taken.
    pub(super) fn claim(&mut self, now: Moment, id: Id, grant: Grant) -> Option<&'static str> {
        let actions = self.engine.step(now, Event::Claim(id));
        let claimed = Action::Complete(id, Outcome::Acquired(Ok(grant)));
        self.count().or((!actions.contains(&claimed)).then_some("an offer is no grant"))
    }

    /// Steps the engine with the same event. Returns the rule that is broken.
    pub(super) fn step(&mut self, now: Moment, event: Event, expected: &[Action]) -> Option<&'static str> {
        // An engine without observers has a lane, and does not publish the validity of a hold whose offer was taken.
        let decides = |action: &&Action| !matches!(action, Action::Trusted(..));
        let actions = self.engine.step(now, event);
        if !actions.iter().filter(decides).eq(expected.iter().filter(decides)) {
            return Some("facts or the lane change a decision");
        }
        self.count()
    }

    /// Counts what the facts tell. Returns the rule that is broken.
    fn count(&mut self) -> Option<&'static str> {
        let mut facts = Vec::new();
        self.engine.take_facts(&mut facts);
        for fact in facts {
            match fact {
                Fact::Waiting { .. } => self.waiting += 1,
                Fact::Acquired { told, by, .. } => {
                    self.waiting -= i64::from(told.waiting);
                    self.held += i64::from(by != GrantedBy::Event);
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

impl World {
    /// Lets an observer be told of all that the clients decide.
    pub(crate) fn observe(&mut self) {
        for client in &mut self.clients {
            client.observed = Some(Observed::new(&client.engine));
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
