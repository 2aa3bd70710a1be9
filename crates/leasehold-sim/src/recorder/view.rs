//! The state that the invariants read besides the events.
//!
//! Invariant: only the recorder changes the state.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use leasehold::election::Validity;

use crate::clock::Clock;
use crate::history::Hold;
use crate::name_state::Side;
use crate::owner::Wire;
use crate::plan::Plan;
use crate::taken::Taken;

/// The state that invariants may read besides the events.
pub(crate) struct View {
    /// The true time.
    pub(crate) now: Duration,
    pub(crate) plan: Arc<Plan>,
    /// The guards that users have. A guard stays here until the invariants have observed its end.
    pub(crate) holds: BTreeMap<Hold, LiveHold>,
    /// The terms that users lead, by their numbers.
    pub(crate) terms: BTreeMap<u64, LiveTerm>,
    /// The clocks of the processes.
    pub(crate) clocks: Vec<Clock>,
    /// The server's clock.
    pub(crate) server_clock: Clock,
    pub(super) pauses: Vec<Pauses>,
    /// The time at which each process last read bytes of the server.
    pub(super) heard_at: Vec<Duration>,
    /// The number of active faults that disturb calls.
    pub(super) disturbances: usize,
    /// The end of the last such fault, or `None` if none has ended yet.
    pub(super) quiet_since: Option<Duration>,
    /// The number of active losses of wake-ups.
    pub(super) messages_lost: usize,
    /// The end of the last loss of wake-ups, or `None` if none has ended yet.
    pub(super) heard_since: Option<Duration>,
}

/// The pauses of a process: the past pauses, and the start of the current pause.
#[derive(Clone, Default)]
pub(super) struct Pauses {
    pub(super) past: Vec<(Duration, Duration)>,
    pub(super) present: Option<Duration>,
}

/// A guard that a user has.
#[derive(Clone)]
pub(crate) struct LiveHold {
    /// The process of the user.
    pub(crate) process: usize,
    /// The name that is held.
    pub(crate) name: Arc<str>,
    /// The wire owner.
    pub(crate) wire: Wire,
    /// The kind of the hold.
    pub(crate) side: Side,
    /// The number of the user's owner, or 0 for an owner that has no other hold.
    pub(crate) owner: u64,
    /// The number of permits.
    pub(crate) units: u32,
    /// The terms of the hold.
    pub(crate) terms: Terms,
    /// The time of the claim.
    pub(crate) since: Duration,
    /// The end of its validity by the client's clock, at the last check of time.
    pub(crate) valid_until: Duration,
    /// True if the guard was valid at the last check of time.
    pub(super) held: bool,
    pub(super) taken: Weak<Taken>,
    /// The index of the guard among several.
    pub(super) place: usize,
}

impl LiveHold {
    /// Returns the remaining validity, as its client reports it.
    pub(super) fn remaining(&self) -> Duration {
        let taken = self.taken.upgrade();
        taken.map_or(Duration::ZERO, |taken| taken.guards()[self.place].remaining()).min(TRUST_MAX)
    }
}

/// A term that a user leads.
#[derive(Clone)]
pub(crate) struct LiveTerm {
    pub(crate) process: usize,
    pub(crate) token: u64,
    /// True for a term of `lead`, until its body has ended.
    pub(crate) has_body: bool,
    /// What the client says of the term.
    pub(crate) validity: Validity,
}

/// The longest validity that counts as finite.
const TRUST_MAX: Duration = Duration::from_secs(1_000_000);

/// The terms with which a hold was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) lease: Duration,
    /// True if the hold is renewed without a bound.
    pub(crate) watched: bool,
    /// The minimum hold time.
    pub(crate) min_hold: Option<Duration>,
}

impl View {
    /// Returns true if a hold is valid now, as its client reports it.
    #[must_use]
    pub(crate) fn is_valid(&self, hold: &LiveHold) -> bool {
        !hold.remaining().is_zero()
    }

    /// Returns the wire owner of a hold with a minimum hold time, which the server may keep past the release.
    pub(crate) fn min_hold_owner(&self, hold: &Hold) -> Option<Wire> {
        let hold = self.holds.get(hold)?;
        hold.terms.min_hold.map(|_| Arc::clone(&hold.wire))
    }

    /// Returns true if a hold is valid by its last refresh. A query of the guard costs more, and this check runs after
    /// every step.
    #[must_use]
    pub(crate) fn seems_valid(&self, hold: &LiveHold) -> bool {
        hold.held && self.clock_reading(hold.process) < hold.valid_until
    }

    /// Returns the holds of a name that seem valid now.
    pub(crate) fn valid_holds<'a>(
        &'a self,
        name: &'a str,
    ) -> impl Iterator<Item = (Hold, &'a LiveHold)> + 'a {
        let of_name = self.holds.iter().filter(move |(_, hold)| &*hold.name == name);
        of_name.filter(|(_, hold)| self.seems_valid(hold)).map(|(id, hold)| (*id, hold))
    }

    /// Returns true if no fault disturbs calls now, and none did within the given time.
    #[must_use]
    pub(crate) fn is_quiet_for(&self, span: Duration) -> bool {
        self.disturbances == 0 && self.quiet_since.is_none_or(|since| self.now.saturating_sub(since) >= span)
    }

    /// Returns true if no wake-ups are lost now, and none were within the given time.
    #[must_use]
    pub(crate) fn has_wake_ups_for(&self, span: Duration) -> bool {
        self.messages_lost == 0 && self.heard_since.is_none_or(|since| self.now.saturating_sub(since) >= span)
    }

    /// Returns the time for which a process was paused since `since`.
    #[must_use]
    pub(crate) fn paused_since(&self, process: usize, since: Duration) -> Duration {
        let Some(Pauses { past, present }) = self.pauses.get(process) else { return Duration::ZERO };
        let past =
            past.iter().map(|(from, until)| until.saturating_sub((*from).max(since))).sum::<Duration>();
        past + present.map_or(Duration::ZERO, |from| self.now.saturating_sub(from.max(since)))
    }

    /// Returns the time at which a process last read bytes of the server.
    #[must_use]
    pub(crate) fn heard_at(&self, process: usize) -> Duration {
        self.heard_at.get(process).copied().unwrap_or_default()
    }

    /// Returns the time on the server's clock, in milliseconds.
    #[must_use]
    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.server_clock.reading(self.now).as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the time on the clock of a process.
    #[must_use]
    pub(crate) fn clock_reading(&self, process: usize) -> Duration {
        self.clocks[process].reading(self.now)
    }
}
