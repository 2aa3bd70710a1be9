//! Who leads, as an observer sees it.
//!
//! Invariant: a state comes from an answer of the server, and an old answer is never shown as the present.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leasehold_proto::recipe::election;
use leasehold_proto::{Moment, WireOwner};

use super::hub::{ASK_EVERY, Hub, Observing, Seen, Sight};
use crate::runtime::shared::Handle;

/// The time for which an answer is shown after the next question was due: the jitter of the question, and its trip.
const SLACK: Duration = Duration::from_secs(1);

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// The server has not answered yet, or for longer than the last known lease, of which at most 10 s count.
    #[non_exhaustive]
    Unknown {
        /// The time since the last answer, or `None` if there was none.
        since: Option<Duration>,
    },
    /// Nobody leads.
    NoLeader,
    /// This leader.
    Leader(Leader),
}

/// A leader.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The name of the candidate: `None` for a leader of Redisson, and for a new leader until its announcement arrives, a
    /// round trip later.
    pub candidate: Option<String>,
    /// What the candidate tells observers.
    pub info: Option<String>,
    /// The fencing token of the term.
    pub term: Option<u64>,
    /// The wire owner, which is the field of the lock's hash.
    pub owner: String,
    /// The machine.
    pub host: Option<String>,
    /// The process.
    pub pid: Option<u32>,
    /// The begin of the term, by the server's clock.
    pub since: Option<SystemTime>,
    /// The rest of the lease, or `None` for a hold without an end.
    pub valid_for: Option<Duration>,
    /// True if this client leads, under any candidate name.
    pub is_me: bool,
}

impl State {
    /// Returns the leader, if one is known.
    #[must_use]
    pub const fn leader(&self) -> Option<&Leader> {
        if let Self::Leader(leader) = self { Some(leader) } else { None }
    }

    /// Returns true if observers are told nothing new by the other state.
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unknown { .. }, Self::Unknown { .. }) | (Self::NoLeader, Self::NoLeader) => true,
            (Self::Leader(one), Self::Leader(other)) => {
                let plain = |leader: &Leader| Leader { valid_for: None, ..leader.clone() };
                plain(one) == plain(other)
            }
            _ => false,
        }
    }
}

impl Leader {
    pub(super) fn of(handle: &Handle, leader: election::Leader, age: Duration) -> Self {
        let is_me = leader.owner.parse::<WireOwner>().is_ok_and(|owner| owner.client() == handle.client());
        let valid_for = leader.remaining.map(|left| left.saturating_sub(age));
        let (said, since) = leader.announced.unzip();
        let (candidate, info, host, pid) =
            said.map(|said| (said.candidate, said.info, said.host, said.pid)).map_or_else(
                || (None, None, None, None),
                |(candidate, info, host, pid)| (Some(candidate), Some(info), Some(host), Some(pid)),
            );
        let since = since.and_then(|ms| SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(ms)));
        Self { candidate, info, term: leader.term, owner: leader.owner, host, pid, since, valid_for, is_me }
    }
}

/// Follows who leads. [`Election::observe`](crate::Election::observe) creates it. All observers of one election in a client
/// share one subscription and one question.
pub struct Observer {
    observing: Observing,
    told: Option<State>,
}

impl Observer {
    pub(super) fn new(hub: &Arc<Hub>) -> Self {
        Self { observing: Observing::new(hub), told: None }
    }

    /// Returns the latest state. Makes no round trip.
    ///
    /// Use it as a level, to ask who leads now. The server's answer that it comes from may be as old as a question takes,
    /// so only the leader itself knows that it leads.
    ///
    /// # Examples
    /// See [`changed`](Self::changed).
    #[must_use]
    pub fn current(&self) -> State {
        let seen = self.observing.hub.seen.get().last;
        self.state(seen.as_ref())
    }

    fn state(&self, seen: Option<&Seen>) -> State {
        let (handle, since) = (&self.observing.hub.handle, self.observing.since);
        state(handle, seen.filter(|seen| seen.at >= since), handle.now())
    }

    /// Waits for a state that differs from the one that this method returned last, and returns the latest. The first call
    /// returns the first answer. A slow reader skips states. Returns `None` once the client is closed.
    ///
    /// # Cancel safety
    /// This method is cancel safe. A state that was not returned is returned by the next call, if it is still the latest.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// use leasehold::election::State;
    ///
    /// let election = client.election("scheduler").candidate("a");
    /// let mut view = election.observe();
    /// assert_eq!(view.changed().await, Some(State::NoLeader));
    /// let term = election.campaign().await?;
    /// while view.changed().await.is_some_and(|state| state.leader().is_none_or(|leader| leader.candidate.is_none())) {}
    /// assert_eq!(view.current().leader().and_then(|leader| leader.term), Some(term.token()));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn changed(&mut self) -> Option<State> {
        loop {
            let sight = self.observing.hub.seen.get();
            let is_answered = sight.last.as_ref().is_some_and(|seen| seen.at >= self.observing.since);
            let current = self.state(sight.last.as_ref());
            if is_answered && self.told.as_ref().is_none_or(|told| !told.is_like(&current)) {
                self.told = Some(current.clone());
                return Some(current);
            }
            if sight.has_ended {
                return None;
            }
            let is_new = |now: &Sight| (now.version != sight.version || now.has_ended).then_some(());
            self.observing.hub.seen.until(is_new).await;
        }
    }
}

fn state(handle: &Handle, seen: Option<&Seen>, now: Moment) -> State {
    let Some(seen) = seen else { return State::Unknown { since: None } };
    let age = now.since(seen.at);
    if seen.is_outdated || age > seen.known_lease().unwrap_or(ASK_EVERY) + SLACK {
        return State::Unknown { since: Some(age) };
    }
    seen.leader.clone().map_or(State::NoLeader, |leader| State::Leader(Leader::of(handle, leader, age)))
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("current", &self.current()).finish_non_exhaustive()
    }
}
