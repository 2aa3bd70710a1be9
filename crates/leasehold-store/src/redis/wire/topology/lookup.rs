//! The search for the cluster map: a round of queries, one server after the other.
//!
//! Invariant: at most one round is under way, and rounds keep a pace, whatever the servers answer.
//!
//! # How it works
//! A round asks the known masters and then the seeds. It goes on to the next when one has failed, or has not answered
//! for [`HEDGE`]. A map with an earlier epoch than the current one comes from a node that was cut off. So does the map
//! of a node that reports the cluster as down, unless a failover is under way. Such a map counts only if the round
//! finds no other, as when the cluster was created again, and then the next round begins sooner.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use leasehold_proto::Moment;

use super::map::Map;
use crate::redis::error::Failure;
use crate::redis::wire::backoff::Backoff;
use crate::redis::wire::ids::NodeId;

/// The time after which a round asks the next server too, so that one silent server does not delay the map.
const HEDGE: Duration = Duration::from_millis(300);
/// The shortest time between two rounds that found a map. During a reshard every moved slot asks for one, and a map is
/// long.
const REST: Duration = Duration::from_secs(1);

/// The round under way, or the time of the next.
#[derive(Debug)]
pub(super) struct Lookup {
    round: Option<Round>,
    /// True if a round is wanted as soon as the pace allows one.
    is_wanted: bool,
    not_before: Moment,
    pace: Backoff,
}

#[derive(Debug)]
struct Round {
    candidates: VecDeque<NodeId>,
    asked: BTreeSet<NodeId>,
    next_at: Moment,
    /// The last one of the maps of an earlier epoch, or of a node that does not serve.
    fallback: Option<Map>,
    failure: Option<Failure>,
}

/// The end of a round.
#[derive(Debug)]
pub(super) enum Found {
    Map(Map),
    /// No server has given a map. The failure is the last one.
    Nothing(Option<Failure>),
}

impl Lookup {
    pub(super) fn new(seed: u64) -> Self {
        Self { round: None, is_wanted: false, not_before: Moment::default(), pace: Backoff::new(seed) }
    }

    /// Asks for a round, which begins as soon as the pace allows.
    pub(super) const fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Returns true if a round is under way, which may still ask each of its servers.
    pub(super) const fn is_under_way(&self) -> bool {
        self.round.is_some()
    }

    /// Returns true if a round is to begin.
    pub(super) fn is_due(&self, now: Moment) -> bool {
        self.is_wanted && self.round.is_none() && self.not_before <= now
    }

    /// Begins a round over these servers.
    pub(super) fn begin(&mut self, now: Moment, candidates: VecDeque<NodeId>) {
        self.is_wanted = false;
        self.pace.attempted(now);
        let (asked, fallback, failure) = (BTreeSet::new(), None, None);
        self.round = Some(Round { candidates, asked, next_at: now, fallback, failure });
    }

    /// Returns the next server to ask now, if its time has come. Leaves a round that has a map to [`Self::overdue`].
    pub(super) fn next(&mut self, now: Moment) -> Option<NodeId> {
        let is_left = |round: &Round| round.candidates.is_empty() && round.fallback.is_some();
        let round = self.round.as_mut().filter(|round| round.next_at <= now && !is_left(round))?;
        let next = round.candidates.pop_front();
        round.next_at = if next.is_some() { now + HEDGE } else { Moment::NEVER };
        round.asked.extend(next);
        next
    }

    /// Takes the answer of a server. `epoch` is that of the map in use. Returns the end of the round, if this ends it.
    pub(super) fn answered(
        &mut self,
        now: Moment,
        node: NodeId,
        answer: Result<Map, Failure>,
        epoch: u64,
    ) -> Option<Found> {
        let round = self.round.as_mut()?;
        if !round.asked.remove(&node) {
            return None;
        }
        match answer {
            Ok(map) if map.is_up && map.epoch >= epoch => {
                self.pace.forget();
                self.end(now + REST);
                return Some(Found::Map(map));
            }
            Ok(map) => {
                let last = round.fallback.take().filter(|last| last.epoch > map.epoch);
                round.fallback = Some(last.unwrap_or(map));
            }
            Err(failure) => round.failure = Some(failure),
        }
        if !round.candidates.is_empty() {
            round.next_at = now;
            return None;
        }
        if !round.asked.is_empty() {
            return None;
        }
        let found = match round.fallback.take() {
            Some(map) => Found::Map(map),
            None => Found::Nothing(round.failure.take()),
        };
        self.end(self.pace.not_before());
        Some(found)
    }

    /// Ends a round whose last servers are silent, if another one has given a map.
    pub(super) fn overdue(&mut self, now: Moment) -> Option<Map> {
        let is_overdue = |round: &&mut Round| round.next_at <= now && round.candidates.is_empty();
        let map = self.round.as_mut().filter(is_overdue)?.fallback.take()?;
        self.end(self.pace.not_before());
        Some(map)
    }

    /// Ends the round. The next one begins no sooner than this.
    fn end(&mut self, not_before: Moment) {
        self.round = None;
        self.not_before = not_before;
    }

    /// Ends the round without a result.
    pub(super) fn stop(&mut self) {
        self.round = None;
        self.is_wanted = false;
    }

    /// Returns the time at which there is something to do.
    pub(super) fn timer(&self) -> Moment {
        match &self.round {
            Some(round) => round.next_at,
            None if self.is_wanted => self.not_before,
            None => Moment::NEVER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_proto::{Applied, StoreErrorKind};

    fn ms(millis: u64) -> Moment {
        Moment::from_millis(millis)
    }

    fn map(epoch: u64) -> Result<Map, Failure> {
        Ok(Map { epoch, is_up: true, ranges: Vec::new() })
    }

    /// The map of a node that says that the cluster is down.
    fn down(epoch: u64) -> Result<Map, Failure> {
        map(epoch).map(|map| Map { is_up: false, ..map })
    }

    fn failure() -> Result<Map, Failure> {
        Err(Failure::new(StoreErrorKind::Unreachable, Applied::No))
    }

    fn begun(nodes: u32) -> Lookup {
        let mut lookup = Lookup::new(7);
        lookup.want();
        assert!(lookup.is_due(ms(0)));
        lookup.begin(ms(0), (1..=nodes).map(NodeId).collect());
        assert!(!lookup.is_due(ms(0)), "a round is under way");
        lookup
    }

    #[test]
    fn the_next_server_is_asked_after_a_failure_or_a_silence() {
        let mut lookup = begun(3);
        assert_eq!((lookup.next(ms(0)), lookup.next(ms(0))), (Some(NodeId(1)), None));
        assert_eq!(lookup.timer(), ms(300));
        assert_eq!(lookup.next(ms(300)), Some(NodeId(2)), "the first one is silent");
        assert!(lookup.answered(ms(310), NodeId(2), failure(), 0).is_none());
        assert_eq!(lookup.next(ms(310)), Some(NodeId(3)));
        let found = lookup.answered(ms(320), NodeId(1), map(4), 4);
        assert!(matches!(found, Some(Found::Map(Map { epoch: 4, .. }))), "{found:?}");
        lookup.want();
        assert_eq!((lookup.is_due(ms(1_319)), lookup.timer()), (false, ms(1_320)));
        assert!(lookup.answered(ms(330), NodeId(3), map(9), 0).is_none(), "the round is over");
    }

    #[test]
    fn a_round_that_is_wanted_during_another_begins_after_its_end() {
        let mut lookup = begun(2);
        lookup.want();
        assert!(!lookup.is_due(ms(5_000)), "a round is under way");
        assert_eq!(lookup.next(ms(0)), Some(NodeId(1)));
        assert!(matches!(lookup.answered(ms(1), NodeId(1), map(1), 0), Some(Found::Map(_))));
        assert!(!lookup.is_due(ms(1_000)) && lookup.is_due(ms(1_001)));
    }

    #[test]
    fn a_map_of_an_earlier_epoch_counts_only_without_another() {
        let mut lookup = begun(2);
        lookup.next(ms(0));
        assert!(lookup.answered(ms(1), NodeId(1), map(3), 4).is_none());
        assert_eq!(lookup.next(ms(1)), Some(NodeId(2)));
        assert!(matches!(
            lookup.answered(ms(2), NodeId(2), map(5), 4),
            Some(Found::Map(Map { epoch: 5, .. }))
        ));
        let mut lookup = begun(2);
        lookup.next(ms(0));
        lookup.answered(ms(1), NodeId(1), map(3), 4);
        lookup.next(ms(1));
        let found = lookup.answered(ms(2), NodeId(2), failure(), 4);
        assert!(matches!(found, Some(Found::Map(Map { epoch: 3, .. }))), "{found:?}");
    }

    #[test]
    fn a_map_of_a_node_that_does_not_serve_counts_only_without_another_and_is_asked_for_again_soon() {
        let mut lookup = begun(2);
        lookup.next(ms(0));
        assert!(lookup.answered(ms(1), NodeId(1), down(4), 4).is_none(), "it was cut off");
        assert_eq!(lookup.next(ms(1)), Some(NodeId(2)));
        let found = lookup.answered(ms(2), NodeId(2), map(5), 4);
        assert!(matches!(found, Some(Found::Map(Map { epoch: 5, is_up: true, .. }))), "{found:?}");
        let mut lookup = begun(3);
        for (number, epoch) in [(1, 4), (2, 5), (3, 3)] {
            assert_eq!(lookup.next(ms(number.into())), Some(NodeId(number)));
            let found = lookup.answered(ms(number.into()), NodeId(number), down(epoch), 4);
            let is_last = number == 3;
            let is_latest = matches!(found, Some(Found::Map(Map { epoch: 5, .. })));
            assert_eq!(is_latest, is_last, "{found:?}");
        }
        lookup.want();
        assert!(lookup.is_due(ms(25)), "a failover is under way");
    }

    #[test]
    fn a_silent_server_does_not_keep_a_round_from_the_map_of_one_that_does_not_serve() {
        let mut lookup = begun(2);
        lookup.next(ms(0));
        assert!(lookup.answered(ms(1), NodeId(1), down(4), 4).is_none());
        assert_eq!(lookup.next(ms(1)), Some(NodeId(2)));
        assert_eq!((lookup.overdue(ms(300)), lookup.timer()), (None, ms(301)));
        assert_eq!(lookup.overdue(ms(301)), down(4).ok());
        assert!(!lookup.is_under_way());
        let mut lookup = begun(1);
        lookup.next(ms(0));
        assert_eq!(lookup.overdue(ms(300)), None, "nobody has given a map");
        assert_eq!((lookup.next(ms(300)), lookup.is_under_way()), (None, true));
    }

    #[test]
    fn a_round_without_a_map_is_followed_by_a_pause() {
        let mut lookup = begun(1);
        lookup.next(ms(0));
        assert!(matches!(lookup.answered(ms(5), NodeId(1), failure(), 0), Some(Found::Nothing(Some(_)))));
        lookup.want();
        assert!(!lookup.is_due(ms(5)) && lookup.is_due(ms(25)));
    }
}
