//! When a call without a reply ends.
//!
//! Invariant: a call ends two timeouts after its submission at the latest, and an unsent call after one and a half.
//!
//! # How it works
//! A call waits for its timeout at most, unless the server answers other calls meanwhile. Each reply shows that the
//! server works, so it restarts the timeout of every call in the queue and in flight.

use std::time::Duration;

use leasehold_proto::Moment;

/// The submission of a call and its timeout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    submitted: Moment,
    timeout: Duration,
}

impl Deadline {
    pub(super) const fn new(submitted: Moment, timeout: Duration) -> Self {
        Self { submitted, timeout }
    }

    /// Returns the end of the wait for a connection with room. `last_reply` is the last reply to a call on the present
    /// connection.
    pub(super) fn unsent(self, last_reply: Option<Moment>) -> Moment {
        (self.submitted + self.timeout + self.timeout / 2).min(self.shown(last_reply))
    }

    /// Returns the end of the wait for a reply. The time before the sending counts.
    pub(super) fn sent(self, last_reply: Option<Moment>) -> Moment {
        (self.submitted + self.timeout + self.timeout).min(self.shown(last_reply))
    }

    /// Returns the end of the timeout that the last reply restarted.
    fn shown(self, last_reply: Option<Moment>) -> Moment {
        self.waits_since(last_reply) + self.timeout
    }

    /// Returns the time since which the call waits without a reply to any call.
    pub(super) fn waits_since(self, last_reply: Option<Moment>) -> Moment {
        last_reply.map_or(self.submitted, |reply| reply.max(self.submitted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Moment {
        Moment::from_millis(millis)
    }

    #[test]
    fn replies_to_others_prolong_the_wait_up_to_its_bound() {
        let deadline = Deadline::new(ms(1_000), Duration::from_millis(100));
        for (last_reply, unsent, sent) in [
            (None, 1_100, 1_100),
            (Some(900), 1_100, 1_100),
            (Some(1_030), 1_130, 1_130),
            (Some(1_090), 1_150, 1_190),
            (Some(1_120), 1_150, 1_200),
        ] {
            let last_reply = last_reply.map(ms);
            assert_eq!(
                (deadline.unsent(last_reply), deadline.sent(last_reply)),
                (ms(unsent), ms(sent)),
                "{last_reply:?}"
            );
        }
    }

    #[test]
    fn the_longest_timeout_never_ends() {
        let deadline = Deadline::new(ms(1_000), Duration::MAX);
        assert_eq!(deadline.unsent(None), Moment::NEVER);
        assert_eq!(deadline.sent(Some(ms(2_000))), Moment::NEVER);
    }
}
