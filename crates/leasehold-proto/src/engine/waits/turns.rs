//! Turns: how long a client leaves a name to the other clients after a release that they heard.
//!
//! Invariant: a pause lasts for the turns of the other clients or for [`LONGEST`], whichever is later, and later
//! releases do not prolong it.
//!
//! # How it works
//! Without a pause the releasing client would win each race against the clients that its release has woken. A round trip
//! is enough for another client of this library. A Java client needs milliseconds from the message to its attempt.
//!
//! So the pause takes [`LONGEST`], unless the message of another client's release ends it. If no message comes and the
//! server grants the next attempt, no other client wanted the name. The next pauses then take about a round trip: 2 of
//! them at first, and twice as many after each further pause in vain, so listeners that do not wait cost little. The
//! message of another client, or one more listener, makes the next pause long again.

use std::time::Duration;

use crate::moment::Moment;

/// The pause if no other client releases the name, unless the turns of the others take longer. A Java client makes its
/// attempt about 1 to 3 ms after the message.
pub(in crate::engine) const LONGEST: Duration = Duration::from_millis(4);
/// The short pauses after the first pause in vain, and the most after later ones. A listener that never waits then costs a
/// long pause in 64 releases.
const SHORT: (u8, u8) = (2, 64);

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Turns {
    /// The other clients that listened to the last release of this client.
    others: u32,
    /// The releases of other clients that this client still leaves to others.
    left: u32,
    /// The end of the pause, and its end if another client releases the name meanwhile, which is not later.
    until: Moment,
    soon: Moment,
    /// True if another client has released the name since the pause began.
    taken: bool,
    /// The short pauses that are left, and their number after the last pause in vain.
    short: u8,
    shortened: u8,
}

impl Turns {
    /// Returns true if other clients listened to the last release of this client.
    pub(in crate::engine) const fn have_others(&self) -> bool {
        self.others > 0
    }

    /// Notes the number of other clients that listened to a release of this client.
    pub(in crate::engine) const fn note_listeners(&mut self, others: u32) {
        if others > self.others {
            self.note_interest();
        }
        self.others = others;
    }

    /// Begins a pause in which this many releases of other clients are left to others. It ends at `soon` if one of them
    /// comes. A client that stands back already goes on as before, so that one release after the other does
    /// not keep its waiters waiting. Returns the end of the pause.
    pub(in crate::engine) fn begin(&mut self, now: Moment, turns: u32, soon: Moment) -> Moment {
        if self.until <= now {
            let is_short = self.short > 0;
            self.short = self.short.saturating_sub(1);
            let until = if is_short { soon } else { soon.max(now + LONGEST) };
            (self.left, self.soon, self.until, self.taken) = (turns, soon, until, false);
        }
        self.until
    }

    /// Notes the release of another client. Returns the rest of the pause, which is zero if the client need not leave
    /// this release to others.
    pub(in crate::engine) fn note_release(&mut self, now: Moment) -> Duration {
        self.note_interest();
        self.taken = true;
        self.until = self.until.min(self.soon);
        let rest = if self.left > 0 { self.until.since(now) } else { Duration::ZERO };
        self.left = self.left.saturating_sub(1);
        rest
    }

    /// Notes a grant to this client, which ends the pause.
    pub(in crate::engine) fn end(&mut self, now: Moment) {
        let was_longer = self.until > self.soon;
        if was_longer && now >= self.until && !self.taken {
            self.shortened = self.shortened.saturating_mul(2).clamp(SHORT.0, SHORT.1);
            self.short = self.shortened;
        }
        (self.left, self.until, self.soon) = (0, Moment::default(), Moment::default());
    }

    /// Notes that another client wants the name, so the next pause is not short.
    const fn note_interest(&mut self) {
        (self.short, self.shortened) = (0, 0);
    }
}
