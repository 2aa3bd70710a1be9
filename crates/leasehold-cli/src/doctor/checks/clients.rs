//! Checks the server's limits and timeouts for clients.

use crate::doctor::facts::{Facts, Known};
use crate::doctor::finding::{Check, Finding};

const MAXCLIENTS: Check = Check {
    name: "maxclients",
    why: "a client that cannot connect again after a broken connection loses its locks",
    assumption: None,
};
const TIMEOUT: Check = Check {
    name: "timeout",
    why: "an idle client must reconnect before its next lock if the server closed its connection",
    assumption: None,
};
const KEEPALIVE: Check = Check {
    name: "tcp-keepalive",
    why: "without keep-alives the connections of vanished clients stay open and count against maxclients",
    assumption: None,
};
const OUTPUT: Check = Check {
    name: "pubsub-buffer",
    why: "the server disconnects a subscriber above the limit, which then has to poll instead of being woken",
    assumption: None,
};
/// The percentage of maxclients above which the check warns.
const FULL: u64 = 80;
/// The smallest limit of the output buffer of a subscriber that passes, in bytes.
const OUTPUT_MIN: u64 = 1 << 20;
/// The shortest idle time that passes, in seconds. Renewals of the default lease come every 10 s.
const IDLE_MIN_S: u64 = 60;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    vec![maxclients(facts), timeout(facts), keepalive(facts), output(facts)]
}

fn maxclients(facts: &Facts) -> Finding {
    let limit = facts.setting_or_info("maxclients", "maxclients").and_then(|limit| limit.parse::<u64>().ok());
    match limit.zip(facts.field_number("connected_clients")) {
        Known::Answered((limit, used)) => {
            let found = format!("{used} of {limit} clients are connected");
            if used.saturating_mul(100) >= limit.saturating_mul(FULL) {
                MAXCLIENTS.warn(found, "CONFIG SET maxclients to a larger number")
            } else {
                MAXCLIENTS.pass(found)
            }
        }
        gap => MAXCLIENTS.unknown(gap.gap("INFO and CONFIG GET"), "INFO clients"),
    }
}

fn timeout(facts: &Facts) -> Finding {
    match facts.number("timeout") {
        Known::Answered(0) => TIMEOUT.pass("timeout is 0, so idle connections stay open"),
        Known::Answered(idle_s @ IDLE_MIN_S..) => TIMEOUT.pass(format!("timeout is {idle_s} s")),
        Known::Answered(idle_s) => TIMEOUT.warn(format!("timeout is {idle_s} s"), "CONFIG SET timeout 0"),
        gap => TIMEOUT.unknown(gap.gap("CONFIG GET"), "CONFIG GET timeout"),
    }
}

fn keepalive(facts: &Facts) -> Finding {
    match facts.number("tcp-keepalive") {
        Known::Answered(0) => KEEPALIVE.warn("tcp-keepalive is 0", "CONFIG SET tcp-keepalive 300"),
        Known::Answered(after_s) => KEEPALIVE.pass(format!("tcp-keepalive is {after_s} s")),
        gap => KEEPALIVE.unknown(gap.gap("CONFIG GET"), "CONFIG GET tcp-keepalive"),
    }
}

fn output(facts: &Facts) -> Finding {
    let limits = facts.setting("client-output-buffer-limit");
    match limits.and_then(|limits| of_pubsub(&limits)) {
        Known::Answered((hard, soft)) => {
            let found = format!("client-output-buffer-limit of pubsub is {hard} bytes, soft {soft}");
            let is_small = |limit: u64| limit != 0 && limit < OUTPUT_MIN;
            if is_small(hard) || is_small(soft) {
                let run = "CONFIG SET client-output-buffer-limit \"pubsub 33554432 8388608 60\"";
                OUTPUT.warn(found, run)
            } else {
                OUTPUT.pass(found)
            }
        }
        gap => OUTPUT.unknown(gap.gap("CONFIG GET"), "CONFIG GET client-output-buffer-limit"),
    }
}

/// Returns the hard and the soft limit of subscribers, in bytes. Zero is no limit.
fn of_pubsub(limits: &str) -> Option<(u64, u64)> {
    let mut words = limits.split_whitespace().skip_while(|word| *word != "pubsub").skip(1);
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{denied, healthy, verdict};
    use super::*;
    use crate::doctor::finding::Verdict;

    #[test]
    fn a_server_that_is_almost_full_warns() {
        let of = |facts| verdict(&check(&facts), "maxclients");
        assert_eq!(of(healthy()), Verdict::Pass);
        assert_eq!(of(healthy().set("maxclients", "12")), Verdict::Warn);
        assert_eq!(of(denied()), Verdict::Unknown);
    }

    #[test]
    fn settings_of_connections_are_judged() {
        for (setting, value, check_name, expected) in [
            ("timeout", "0", "timeout", Verdict::Pass),
            ("timeout", "60", "timeout", Verdict::Pass),
            ("timeout", "59", "timeout", Verdict::Warn),
            ("tcp-keepalive", "0", "tcp-keepalive", Verdict::Warn),
            ("client-output-buffer-limit", "pubsub 65536 0 0", "pubsub-buffer", Verdict::Warn),
            ("client-output-buffer-limit", "pubsub 0 0 0", "pubsub-buffer", Verdict::Pass),
            ("client-output-buffer-limit", "normal 0 0 0", "pubsub-buffer", Verdict::Unknown),
        ] {
            let found = check(&healthy().set(setting, value));
            assert_eq!(verdict(&found, check_name), expected, "{setting} {value}");
        }
        assert!(check(&healthy()).iter().all(|finding| finding.verdict == Verdict::Pass));
        assert!(check(&denied()).iter().all(|finding| finding.verdict == Verdict::Unknown));
    }
}
