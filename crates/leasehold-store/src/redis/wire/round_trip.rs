//! The round trip of a connection, and the number of commands that are in flight at once because of it.
//!
//! Invariant: one command is measured at a time, from its writing to its reply.
//!
//! # How it works
//! Calls behind commands in flight can gather until the next reply and share a command, which costs both sides less. With
//! replies evenly spread, that reply is a round trip away, divided by the number of commands in flight. So a connection
//! has as many in flight as keep this wait short: few to a server nearby, and more to one that is far away.

use std::time::Duration;

use leasehold_proto::Moment;

/// The longest wait of a gathered call for the next reply, which is the shortest round trip divided by the commands in
/// flight.
const GATHER: Duration = Duration::from_micros(125);
/// The fewest commands in flight before calls gather, so that the server has the next one while the client reads the reply
/// to the one before, and neither sleeps.
const COMMANDS_MIN: usize = 4;

#[derive(Debug, Default)]
pub(super) struct RoundTrip {
    /// The command that is measured: the place in the stream behind it, and the time of its writing.
    measured: Option<(u64, Moment)>,
    least: Option<Duration>,
}

impl RoundTrip {
    /// Notes a command that ends at this place of the stream.
    pub(super) const fn sent(&mut self, now: Moment, end: u64) {
        if self.measured.is_none() {
            self.measured = Some((end, now));
        }
    }

    /// Notes the reply to the command that ends at this place of the stream.
    pub(super) fn answered(&mut self, now: Moment, end: u64) {
        if let Some((_, sent_at)) = self.measured.take_if(|(measured, _)| *measured == end) {
            let round_trip = now.since(sent_at);
            self.least = Some(self.least.map_or(round_trip, |least| least.min(round_trip)));
        }
    }

    /// Returns the number of commands in flight behind which calls gather, at most this many.
    pub(super) fn commands(&self, most: usize) -> usize {
        let Some(least) = self.least else { return most };
        let commands = usize::try_from(least.as_micros() / GATHER.as_micros()).unwrap_or(most);
        commands.max(COMMANDS_MIN).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(micros: u64) -> Moment {
        Moment::from_nanos(micros * 1_000)
    }

    #[test]
    fn more_commands_are_in_flight_to_a_server_that_is_far_away() {
        for (round_trip, commands) in [(0, 4), (624, 4), (625, 5), (999, 7), (1_000, 8), (50_000, 8)] {
            let mut measured = RoundTrip::default();
            measured.sent(us(10), 1);
            measured.answered(us(10 + round_trip), 1);
            assert_eq!((measured.commands(8), measured.commands(1)), (commands, 1), "{round_trip} us");
        }
        assert_eq!(RoundTrip::default().commands(8), 8, "nothing is known yet");
    }

    #[test]
    fn the_shortest_round_trip_counts_and_one_command_is_measured_at_a_time() {
        let mut measured = RoundTrip::default();
        measured.sent(us(0), 1);
        measured.sent(us(900), 2);
        measured.answered(us(1_000), 1);
        measured.answered(us(1_000), 2);
        assert_eq!(measured.commands(8), 8, "the second command was not measured");
        for (sent, end) in [(2_000, 3), (5_000, 4)] {
            measured.sent(us(sent), end);
            measured.answered(us(sent + 700 * (end - 2)), end);
        }
        assert_eq!(measured.commands(8), 5);
    }
}
