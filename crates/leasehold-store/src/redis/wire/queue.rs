//! The unsent calls, which wait for a connection with room or for the next flush.
//!
//! Invariant: calls leave in the order of their submission, and an abandoned call leaves no trace. At most
//! [`QUEUE_MAX`] calls wait.
//!
//! # How it works
//! Call ids only grow, so the queue is sorted by them. An abandoned call leaves an empty place, which goes when it
//! comes to the front. The queue has one timer, as a pipeline has.

use std::collections::VecDeque;
use std::time::Duration;

use leasehold_proto::Moment;

use super::batch::{PendingCall, Rows};
use super::ids::CallId;

/// The most unsent calls. One more is refused as certainly not executed, so an outage cannot fill the memory.
pub const QUEUE_MAX: usize = 1 << 17;
/// The number of calls above which the timer fires in steps, since each time it reads all calls.
const LONG: usize = 1 << 10;
/// The shortest time between two firings of a long queue's timer. A call may end late by this much, and reading the
/// queue stays cheap.
const STEP: Duration = Duration::from_millis(5);

/// The unsent calls, in the order of their submission.
#[derive(Debug)]
pub(super) struct Queue {
    places: VecDeque<Place>,
    calls: usize,
    /// A time before which no call ends.
    timer: Moment,
}

#[derive(Debug)]
struct Place {
    id: CallId,
    /// Absent once the call was abandoned.
    call: Option<PendingCall>,
}

impl Queue {
    pub(super) const fn new() -> Self {
        Self { places: VecDeque::new(), calls: 0, timer: Moment::NEVER }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.calls == 0
    }

    pub(super) const fn timer(&self) -> Moment {
        self.timer
    }

    pub(super) fn is_full(&self) -> bool {
        self.places.len() >= QUEUE_MAX
    }

    /// Adds a call behind all earlier calls. A call that comes back from another server is before later calls.
    pub(super) fn push(&mut self, call: PendingCall) {
        debug_assert!(!self.is_full(), "a full queue refuses calls");
        self.timer = self.timer.min(call.deadline.unsent(None));
        let place = Place { id: call.id, call: Some(call) };
        if self.places.back().is_none_or(|last| last.id < place.id) {
            self.places.push_back(place);
        } else {
            let index = self.places.partition_point(|earlier| earlier.id < place.id);
            self.places.insert(index, place);
        }
        self.calls += 1;
    }

    /// Returns the calls in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &PendingCall> {
        self.places.iter().filter_map(|place| place.call.as_ref())
    }

    /// Removes a call. Returns false if the call is not here.
    pub(super) fn abandon(&mut self, id: CallId) -> bool {
        self.withdraw(id).is_some()
    }

    /// Takes a call back, if it is here.
    pub(super) fn withdraw(&mut self, id: CallId) -> Option<PendingCall> {
        let index = self.places.binary_search_by_key(&id, |place| place.id).ok()?;
        let call = self.places[index].call.take()?;
        self.calls -= 1;
        self.drop_empty();
        Some(call)
    }

    /// Takes the next calls that can travel as one command, at most `room`. `join` tells whether two calls may share one.
    pub(super) fn next(
        &mut self,
        room: usize,
        rows_max: usize,
        join: impl Fn(&PendingCall, &PendingCall) -> bool,
    ) -> Option<Rows> {
        if room == 0 {
            return None;
        }
        let mut rows = Rows::One(self.pop()?);
        while let Some(Place { call: Some(next), .. }) = self.places.front()
            && let Some(kinds) = rows.kinds_with(&next.call, rows_max.min(room))
            && join(&rows.as_slice()[0], next)
            && let Some(next) = self.pop()
        {
            rows.push(kinds, next);
        }
        Some(rows)
    }

    /// Takes the calls that are chosen, in their order.
    pub(super) fn take(&mut self, is_chosen: impl Fn(&PendingCall) -> bool) -> Vec<PendingCall> {
        let (taken, kept) = self.drain().partition(|call| is_chosen(call));
        Vec::into_iter(kept).for_each(|call| self.push(call));
        taken
    }

    /// Takes the calls whose time is over. `last_reply` is the last reply on the present connection.
    pub(super) fn overdue(&mut self, now: Moment, last_reply: Option<Moment>) -> Vec<PendingCall> {
        if now < self.timer {
            return Vec::new();
        }
        let mut overdue = Vec::new();
        let mut next = Moment::NEVER;
        self.places.retain_mut(|place| match &place.call {
            Some(call) if call.deadline.unsent(last_reply) <= now => {
                overdue.extend(place.call.take());
                false
            }
            Some(call) => {
                next = next.min(call.deadline.unsent(last_reply));
                true
            }
            None => false,
        });
        self.calls = self.places.len();
        self.timer = if self.calls > LONG { next.max(now + STEP) } else { next };
        overdue
    }

    /// Takes all calls.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = PendingCall> {
        std::mem::replace(self, Self::new()).places.into_iter().filter_map(|place| place.call)
    }

    /// Takes the first call.
    pub(super) fn pop(&mut self) -> Option<PendingCall> {
        self.drop_empty();
        let call = self.places.pop_front()?.call;
        self.calls -= usize::from(call.is_some());
        self.drop_empty();
        call
    }

    /// Drops the empty places at the front.
    fn drop_empty(&mut self) {
        while self.places.front().is_some_and(|place| place.call.is_none()) {
            self.places.pop_front();
        }
        if self.places.is_empty() {
            self.timer = Moment::NEVER;
        }
    }
}

#[cfg(test)]
mod tests {
    use leasehold_proto::{Call, Script, Verb};

    use super::*;
    use crate::redis::wire::deadline::Deadline;

    static ONE: Script = Script::new(Verb::Acquire, "return KEYS[1]");
    static OTHER: Script = Script::new(Verb::Release, "return 1");
    static THIRD: Script = Script::new(Verb::Release, "return 2");

    fn ms(millis: u64) -> Moment {
        Moment::from_millis(millis)
    }

    fn call(id: u64, script: &'static Script, timeout: u64) -> PendingCall {
        let deadline = Deadline::new(ms(0), Duration::from_millis(timeout));
        PendingCall::new(CallId(id), Call::with(script, ["k"], [""; 0]), deadline)
    }

    fn queue(calls: impl IntoIterator<Item = PendingCall>) -> Queue {
        let mut queue = Queue::new();
        calls.into_iter().for_each(|call| queue.push(call));
        queue
    }

    /// Takes everything, as commands of the ids of their calls.
    fn commands(queue: &mut Queue, room: usize, rows_max: usize) -> Vec<Vec<u64>> {
        let ids = |rows: Rows| rows.as_slice().iter().map(|row| row.id.0).collect();
        std::iter::from_fn(|| queue.next(room, rows_max, |_, _| true).map(ids)).collect()
    }

    #[test]
    fn neighbors_of_two_scripts_join_and_the_order_stays() {
        let scripts = [&ONE, &ONE, &OTHER, &THIRD, &ONE, &ONE, &THIRD];
        let calls = || (1..).zip(scripts).map(|(id, script)| call(id, script, 100));
        assert_eq!(commands(&mut queue(calls()), 100, 64), [vec![1, 2, 3], vec![4, 5, 6, 7]]);
        assert_eq!(commands(&mut queue(calls()), 100, 3), [vec![1, 2, 3], vec![4, 5, 6], vec![7]]);
        assert_eq!(commands(&mut queue(calls()), 2, 3), [vec![1, 2], vec![3, 4], vec![5, 6], vec![7]]);
        assert_eq!(commands(&mut queue(calls()), 100, 1).len(), 7, "one row is no batch");
        assert_eq!(commands(&mut queue(calls()), 0, 3).len(), 0);
        let mut queue = queue(calls());
        assert_eq!(queue.next(100, 3, |_, _| false).unwrap().as_slice().len(), 1);
    }

    #[test]
    fn abandoned_calls_do_not_leave_the_queue() {
        let mut queue = queue((1..=5).map(|id| call(id, &ONE, 100)));
        for id in [1, 3, 5] {
            assert!(queue.abandon(CallId(id)) && !queue.abandon(CallId(id)));
        }
        assert!(!queue.abandon(CallId(9)));
        assert_eq!(commands(&mut queue, 100, 1), [[2], [4]]);
        assert!(queue.is_empty() && queue.timer() == Moment::NEVER);
    }

    #[test]
    fn calls_end_at_their_own_times() {
        let mut queue = queue([call(1, &ONE, 300), call(2, &ONE, 100), call(3, &ONE, 200)]);
        let mut ids = |now, reply: Option<u64>| {
            let overdue = queue.overdue(ms(now), reply.map(ms));
            (overdue.iter().map(|call| call.id.0).collect::<Vec<_>>(), queue.timer())
        };
        assert_eq!(ids(99, None), (vec![], ms(100)));
        assert_eq!(ids(100, Some(20)), (vec![], ms(120)), "the server answers others");
        assert_eq!(ids(120, Some(20)), (vec![2], ms(220)));
        assert_eq!(ids(250, None), (vec![3], ms(300)));
        assert_eq!(ids(300, None), (vec![1], Moment::NEVER));
    }

    #[test]
    fn a_long_queue_is_read_in_steps() {
        let mut queue = queue((1..=LONG as u64 + 2).map(|id| call(id, &ONE, 99 + id)));
        assert_eq!(queue.overdue(ms(100), None).len(), 1);
        assert_eq!(queue.timer(), ms(100) + STEP);
        assert_eq!(queue.overdue(ms(105), None).len(), 5);
        assert_eq!(queue.timer(), ms(106), "a short queue has the time of its next call");
    }

    #[test]
    fn a_queue_is_full_until_a_call_has_left() {
        let mut queue = queue((1..=QUEUE_MAX as u64).map(|id| call(id, &ONE, 100)));
        assert!(queue.is_full());
        queue.next(1, 1, |_, _| true).unwrap();
        assert!(!queue.is_full());
    }
}
