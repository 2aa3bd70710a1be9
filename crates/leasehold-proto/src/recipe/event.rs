//! An event that clients wait for and that can happen again, such as a latch that opens and is set again.
//!
//! Invariant: the end of a round has a larger number than all earlier ends.
//!
//! # How it works
//! A waiter keeps the last number of its first refusal. A larger number in a later answer says that the waiter's round
//! has ended, also when the next round has begun. Where several rounds have ended since, the first of the two numbers
//! counts, because a waiter waits for its own round.

/// The state of an event, as one answer shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventState {
    /// True if the event has happened, and nothing has begun a new round.
    pub is_now: bool,
    /// The number of the last round that ended with the event, 0 when none is known.
    pub happened: u64,
    /// The number of the last round that ended with a deletion, 0 when none is known.
    pub deleted: u64,
}

/// The way in which a wait for an event ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEnd {
    /// The event has happened.
    Happened,
    /// The round was deleted.
    Deleted,
}

impl EventState {
    /// Returns the number of the last round that has ended.
    #[must_use]
    pub const fn last(self) -> u64 {
        if self.happened > self.deleted { self.happened } else { self.deleted }
    }

    /// Returns how the wait of a waiter ends that was first refused after the round with this number, or of a waiter
    /// that was not refused before. Returns `None` while the wait goes on.
    #[must_use]
    pub fn end_of_wait(self, refused_after: Option<u64>) -> Option<WaitEnd> {
        let since = |number: &u64| refused_after.is_some_and(|last| *number > last);
        let ends = [(self.happened, WaitEnd::Happened), (self.deleted, WaitEnd::Deleted)];
        let first = ends.into_iter().filter(|(number, _)| since(number)).min_by_key(|(number, _)| *number);
        first.map(|(_, end)| end).or(self.is_now.then_some(WaitEnd::Happened))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(is_now: bool, (happened, deleted): (u64, u64), refused_after: Option<u64>) -> Option<WaitEnd> {
        EventState { is_now, happened, deleted }.end_of_wait(refused_after)
    }

    #[test]
    fn a_new_waiter_looks_only_at_the_present() {
        for numbers in [(0, 0), (5, 0), (0, 5), (5, 6)] {
            assert_eq!(end(true, numbers, None), Some(WaitEnd::Happened));
            assert_eq!(end(false, numbers, None), None);
        }
    }

    #[test]
    fn a_waiter_learns_how_its_round_ended_also_in_the_next_round() {
        for is_now in [false, true] {
            assert_eq!(end(is_now, (5, 3), Some(3)), Some(WaitEnd::Happened));
            assert_eq!(end(is_now, (3, 5), Some(3)), Some(WaitEnd::Deleted));
            assert_eq!(end(is_now, (5, 0), Some(0)), Some(WaitEnd::Happened));
            // Two rounds have ended, and the first of them is its own.
            assert_eq!(end(is_now, (5, 6), Some(3)), Some(WaitEnd::Happened));
            assert_eq!(end(is_now, (6, 5), Some(3)), Some(WaitEnd::Deleted));
        }
    }

    #[test]
    fn a_missing_or_older_note_says_nothing() {
        for numbers in [(0, 0), (3, 0), (2, 3)] {
            assert_eq!(end(false, numbers, Some(3)), None);
            // A Redisson client that ends a round leaves no note.
            assert_eq!(end(true, numbers, Some(3)), Some(WaitEnd::Happened));
        }
    }
}
