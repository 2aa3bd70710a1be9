//! The commands in flight on one connection.
//!
//! Invariant: the server answers commands in order, so a reply belongs to the oldest command. One timer guards all of
//! them.
//!
//! # How it works
//! A reply moves the deadline of every call in flight, so moving the timer each time would be wasteful. The timer fires
//! when a call could have ended without that reply, and then reads the calls to find the next such time. The time at
//! which a server counts as silent is found in the same way.

use std::collections::VecDeque;
use std::time::Duration;

use leasehold_proto::Moment;

use super::batch::{PendingCall, Rows};
use super::ids::CallId;
use super::scripts::Form;

/// The most calls in flight. If the connection breaks, the outcomes of so many calls are unknown, so the number is
/// bounded. A working server answers so many within any timeout.
pub const IN_FLIGHT_MAX: usize = 512;
/// The most calls in flight if abandoned calls count too. Abandoned calls make room for others, but the server still
/// has to answer them.
pub(super) const WITH_ABANDONED_MAX: usize = 2 * IN_FLIGHT_MAX;

/// The time without a reply after which a server that owes one counts as silent, and the topology asks whether another
/// server has taken over. No replica takes over sooner by itself.
const SILENT_AFTER: Duration = Duration::from_millis(300);
/// The time between two reports of the same silence. Each report may start a round of questions, and rounds keep this
/// pace.
const SILENT_AGAIN: Duration = Duration::from_secs(1);

/// A command in flight.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) rows: Rows,
    pub(super) form: Form,
    /// The place in the stream behind the command.
    pub(super) end: u64,
    /// The time at which a command of the wire itself ends.
    until: Moment,
}

/// The commands in flight, the oldest first.
#[derive(Debug)]
pub(super) struct Pipeline {
    sent: VecDeque<Sent>,
    calls: usize,
    abandoned: usize,
    /// The time of the last reply, if there was one.
    last_reply: Option<Moment>,
    /// A time before which no call ends.
    timer: Moment,
    /// A time before which the server does not count as silent.
    silent_at: Moment,
    was_silent: bool,
}

impl Pipeline {
    pub(super) const fn new() -> Self {
        Self {
            sent: VecDeque::new(),
            calls: 0,
            abandoned: 0,
            last_reply: None,
            timer: Moment::NEVER,
            silent_at: Moment::NEVER,
            was_silent: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// Returns true if calls are in flight.
    pub(super) const fn has_calls(&self) -> bool {
        self.calls > 0
    }

    /// Returns the number of commands in flight.
    pub(super) fn commands(&self) -> usize {
        self.sent.len()
    }

    /// Returns the number of further calls for which there is room.
    pub(super) fn room(&self) -> usize {
        let wanted = self.calls - self.abandoned;
        IN_FLIGHT_MAX.saturating_sub(wanted).min(WITH_ABANDONED_MAX.saturating_sub(self.calls))
    }

    pub(super) const fn last_reply(&self) -> Option<Moment> {
        self.last_reply
    }

    pub(super) fn timer(&self) -> Moment {
        self.timer.min(self.silent_at)
    }

    /// Adds a command behind all others. `end` is the place in the stream behind it.
    pub(super) fn push(&mut self, rows: Rows, form: Form, end: u64) {
        self.push_sent(Sent { rows, form, end, until: Moment::NEVER });
    }

    /// Adds a command of the wire itself behind all others.
    pub(super) fn push_own(&mut self, form: Form, end: u64, until: Moment) {
        self.push_sent(Sent { rows: Rows::None, form, end, until });
    }

    fn push_sent(&mut self, sent: Sent) {
        self.calls += sent.rows.as_slice().len();
        self.abandoned += sent.rows.as_slice().iter().filter(|row| row.is_abandoned).count();
        self.timer = self.timer.min(sent.ends_at(self.last_reply));
        if let Some(row) = sent.rows.as_slice().first() {
            self.silent_at = self.silent_at.min(row.deadline.waits_since(self.last_reply) + SILENT_AFTER);
        }
        self.sent.push_back(sent);
    }

    /// Takes the command that a reply answers. A command that was not written to its end has no reply.
    pub(super) fn answered(&mut self, now: Moment, written: u64) -> Option<Sent> {
        if self.sent.front()?.end > written {
            return None;
        }
        let sent = self.sent.pop_front()?;
        self.last_reply = Some(now);
        self.calls -= sent.rows.as_slice().len();
        self.abandoned -= sent.rows.as_slice().iter().filter(|row| row.is_abandoned).count();
        if self.sent.is_empty() {
            (self.timer, self.silent_at) = (Moment::NEVER, Moment::NEVER);
        }
        Some(sent)
    }

    /// Notes that the submitter of a call has left. Returns true if the call is in flight here.
    pub(super) fn abandon(&mut self, id: CallId) -> bool {
        let rows = self.sent.iter_mut().flat_map(|sent| sent.rows.as_mut_slice());
        let Some(row) = rows.into_iter().find(|row| row.id == id) else { return false };
        if !std::mem::replace(&mut row.is_abandoned, true) {
            self.abandoned += 1;
        }
        true
    }

    /// Returns true if the time of a call is over. Otherwise moves the timer to the next time at which one can be.
    pub(super) fn is_overdue(&mut self, now: Moment) -> bool {
        if now < self.timer {
            return false;
        }
        let ends = self.sent.iter().map(|sent| sent.ends_at(self.last_reply));
        self.timer = ends.min().unwrap_or(Moment::NEVER);
        self.timer <= now
    }

    /// Returns true if the server owes a reply and gives none for a while, and once a second from then on.
    pub(super) fn is_silent(&mut self, now: Moment) -> bool {
        if now < self.silent_at {
            return false;
        }
        let oldest = self.sent.iter().find_map(|sent| sent.rows.as_slice().first());
        let since = oldest.map(|row| row.deadline.waits_since(self.last_reply));
        let silent_at = since.map_or(Moment::NEVER, |since| since + SILENT_AFTER);
        let is_silent = silent_at <= now;
        self.silent_at = if is_silent { now + SILENT_AGAIN } else { silent_at };
        self.was_silent |= is_silent;
        is_silent
    }

    /// Returns true if the server was silent until now.
    pub(super) const fn ends_silence(&mut self) -> bool {
        std::mem::replace(&mut self.was_silent, false)
    }

    /// Takes all calls, each with true if its time is over.
    pub(super) fn end(self, now: Moment) -> impl Iterator<Item = (PendingCall, bool)> {
        self.sent.into_iter().flat_map(move |Sent { rows, .. }| {
            let last_reply = self.last_reply;
            let calls = rows.into_calls().into_iter();
            calls.map(move |call| {
                let is_over = call.deadline.sent(last_reply) <= now;
                (call, is_over)
            })
        })
    }
}

impl Sent {
    /// Returns the earliest time at which a call of the command ends.
    fn ends_at(&self, last_reply: Option<Moment>) -> Moment {
        let ends = self.rows.as_slice().iter().map(|row| row.deadline.sent(last_reply));
        ends.min().unwrap_or(self.until)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold_proto::{Call, Script, Verb};

    use super::*;
    use crate::redis::wire::deadline::Deadline;

    static ANY: Script = Script::new(Verb::Inspect, "return 1");

    fn ms(millis: u64) -> Moment {
        Moment::from_millis(millis)
    }

    fn row(id: u64, submitted: u64, timeout: u64) -> Rows {
        let deadline = Deadline::new(ms(submitted), Duration::from_millis(timeout));
        let call = Call::with(&ANY, ["k"], [""; 0]);
        Rows::One(PendingCall::new(CallId(id), call, deadline))
    }

    fn ids(pipeline: Pipeline, now: u64) -> Vec<(u64, bool)> {
        pipeline.end(ms(now)).map(|(call, is_over)| (call.id.0, is_over)).collect()
    }

    #[test]
    fn replies_belong_to_commands_in_order() {
        let mut pipeline = Pipeline::new();
        (1..=3).for_each(|id| pipeline.push(row(id, 0, 1_000), Form::Hash, 0));
        for id in 1..=3 {
            let sent = pipeline.answered(ms(10), 0).unwrap();
            assert_eq!(sent.rows.as_slice()[0].id, CallId(id));
        }
        assert!(pipeline.answered(ms(10), 0).is_none(), "a reply without a command");
        assert_eq!((pipeline.room(), pipeline.timer()), (IN_FLIGHT_MAX, Moment::NEVER));
    }

    #[test]
    fn a_command_that_is_not_written_to_its_end_has_no_reply() {
        let mut pipeline = Pipeline::new();
        pipeline.push(row(1, 0, 1_000), Form::Hash, 10);
        assert!(pipeline.answered(ms(1), 9).is_none());
        assert!(pipeline.answered(ms(1), 10).is_some());
    }

    #[test]
    fn one_timer_fires_at_the_earliest_end_of_a_call() {
        let mut pipeline = Pipeline::new();
        pipeline.push(row(1, 0, 1_000), Form::Hash, 0);
        pipeline.push(row(2, 0, 100), Form::Hash, 0);
        pipeline.push(row(3, 50, 100), Form::Hash, 0);
        assert_eq!(pipeline.timer(), ms(100));
        assert!(!pipeline.is_overdue(ms(99)));
        // A reply at 60 shows that the server works.
        pipeline.answered(ms(60), 0).unwrap();
        assert_eq!(pipeline.timer(), ms(100), "a reply moves no timer");
        assert!(!pipeline.is_overdue(ms(100)));
        assert_eq!(pipeline.timer(), ms(160));
        assert!(pipeline.is_overdue(ms(160)));
        assert_eq!(ids(pipeline, 160), [(2, true), (3, true)]);
    }

    #[test]
    fn only_calls_whose_time_is_over_have_timed_out() {
        let mut pipeline = Pipeline::new();
        pipeline.push(row(1, 0, 100), Form::Hash, 0);
        pipeline.push(row(2, 0, 1_000), Form::Hash, 0);
        assert!(pipeline.is_overdue(ms(100)));
        assert_eq!(ids(pipeline, 100), [(1, true), (2, false)]);
    }

    #[test]
    fn abandoned_calls_make_room_up_to_a_bound() {
        let mut pipeline = Pipeline::new();
        let mut id = 0;
        let mut fill = |pipeline: &mut Pipeline| {
            while pipeline.room() > 0 {
                id += 1;
                pipeline.push(row(id, 0, 100), Form::Hash, 0);
            }
            id
        };
        assert_eq!(fill(&mut pipeline), IN_FLIGHT_MAX as u64);
        for abandoned in 1..=IN_FLIGHT_MAX as u64 {
            assert!(pipeline.abandon(CallId(abandoned)) && pipeline.abandon(CallId(abandoned)));
        }
        assert_eq!(fill(&mut pipeline), WITH_ABANDONED_MAX as u64);
        assert!(!pipeline.abandon(CallId(0)), "it is not here");
        pipeline.abandon(CallId(WITH_ABANDONED_MAX as u64));
        assert_eq!(pipeline.room(), 0, "the replies of abandoned calls are still to come");
        for _ in 0..WITH_ABANDONED_MAX {
            assert!(pipeline.answered(ms(1), 0).is_some());
        }
        assert_eq!(pipeline.room(), IN_FLIGHT_MAX);
    }
}
