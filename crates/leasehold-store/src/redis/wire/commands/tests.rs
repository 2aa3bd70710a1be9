//! Tests of calls and their connections over streams in memory, on a clock that the test moves.

mod confirmed;
mod gathering;
mod native;
mod one_server;
mod unsent;

use std::time::Duration;

use leasehold_proto::Applied::{No, Unknown};
use leasehold_proto::StoreErrorKind as Kind;
use leasehold_proto::{Call, Scope};

use super::*;
use crate::redis::connect::ConnectOptions;
use crate::redis::wire::harness::{Driver, GREETING, LONG, ROWS, SET, SHORT, delete, set};
use crate::redis::wire::{ConnId, IN_FLIGHT_MAX, Input};
use crate::sharding::ShardedPubsub;

const MS: Duration = Duration::from_millis(1);

/// Returns the error of a call.
fn failed<T>(kind: Kind, applied: Applied) -> Result<T, (Kind, Applied)> {
    Err((kind, applied))
}

/// Returns a driver whose command connection has carried a call.
fn used() -> (Driver, ConnId) {
    let (mut driver, id) = Driver::live(1);
    driver.set("v", LONG);
    driver.says(id, ":1\r\n");
    (driver, id)
}

#[test]
fn a_lone_call_is_written_in_the_step_that_submits_it() {
    let (mut driver, id) = Driver::live(ROWS);
    let call = driver.set("v", LONG);
    assert_eq!(driver.commands(id), ["EVAL 1 k v"]);
    assert!(!driver.wire.wants_flush());
    driver.says(id, "$2\r\nOK\r\n");
    assert_eq!(driver.outcomes(), [(call, Ok(Reply::Text(b"OK".to_vec())))]);
    driver.set("w", LONG);
    assert_eq!(driver.commands(id), ["EVALSHA 1 k w"], "the text was sent before");
}

#[test]
fn a_stream_that_takes_bytes_slowly_gets_each_byte_once_and_in_order() {
    let (mut driver, id) = Driver::live(1);
    driver.takes = 10;
    for value in 1..=3 {
        driver.set(value, LONG);
    }
    assert!(!driver.wire.wants_flush(), "a flush is under way");
    driver.input(Input::Flush);
    assert_eq!(driver.streams[&id].len(), 10);
    while !driver.wire.unwritten(id).is_empty() {
        driver.takes = 7;
        driver.write(id);
    }
    driver.takes = usize::MAX;
    driver.write(id);
    assert_eq!(driver.commands(id), ["EVAL 1 k 1", "EVALSHA 1 k 2", "EVALSHA 1 k 3"]);
}

#[test]
fn replies_are_read_wherever_the_stream_is_cut() {
    let bytes = "$-1\r\n:7\r\n-LOADING Redis is loading\r\n*2\r\n$1\r\na\r\n:1\r\n$4\r\na\r\nb\r\n";
    let items = vec![Reply::Text(b"a".to_vec()), Reply::Int(1)];
    let expected = [
        (1, Ok(Reply::Nil)),
        (2, Ok(Reply::Int(7))),
        (3, failed(Kind::Loading, No)),
        (4, Ok(Reply::Array(items))),
        (5, Ok(Reply::Text(b"a\r\nb".to_vec()))),
    ];
    for cut in 0..=bytes.len() {
        let (mut driver, id) = Driver::live(1);
        (1..=5).for_each(|value| _ = driver.set(value, LONG));
        driver.input(Input::Flush);
        driver.says(id, &bytes[..cut]);
        driver.says(id, &bytes[cut..]);
        assert_eq!(driver.outcomes(), expected, "cut at {cut}");
    }
}

#[test]
fn a_connection_that_ends_within_a_reply_leaves_the_calls_behind_it_unknown() {
    let bytes = ":1\r\n*3\r\n:2\r\n:3\r\n:4\r\n";
    for cut in 0..=bytes.len() {
        let (mut driver, id) = Driver::live(ROWS);
        for call in [set(1), delete(2), delete(3), set(4)] {
            driver.submit(call, LONG);
        }
        driver.input(Input::Flush);
        driver.says(id, &bytes[..cut]);
        driver.hang_up(id);
        // The rows of a batch are known together.
        let known = match cut {
            0..4 => 0,
            4..20 => 1,
            _ => 4,
        };
        let outcomes = driver.outcomes();
        assert_eq!(outcomes.len(), 4, "cut at {cut}");
        for (index, (call, outcome)) in outcomes.into_iter().enumerate() {
            let is_known = index < known;
            let expected =
                if is_known { Ok(Reply::Int(call as i64)) } else { failed(Kind::ConnectionLost, Unknown) };
            assert_eq!(outcome, expected, "cut at {cut}");
        }
    }
}

#[test]
fn a_forgotten_script_is_sent_once_more_behind_later_calls() {
    let (mut driver, id) = Driver::live(1);
    driver.set(0, LONG);
    driver.says(id, ":0\r\n");
    (1..=3).for_each(|value| _ = driver.set(value, LONG));
    driver.input(Input::Flush);
    driver.taken(id);
    driver.says(id, "-NOSCRIPT No matching script. Please use EVAL.\r\n:2\r\n:3\r\n");
    assert_eq!(driver.commands(id), ["EVAL 1 k 1"]);
    driver.says(id, ":1\r\n");
    let expected = [(1, 0), (3, 2), (4, 3), (2, 1)].map(|(call, reply)| (call, Ok(Reply::Int(reply))));
    assert_eq!(driver.outcomes(), expected);
    // A server that gives the same answer to the text does not get a third command.
    let last = driver.set(4, LONG);
    driver.says(id, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
    driver.says(id, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
    assert_eq!(driver.outcomes(), [(last, failed(Kind::Server, No))]);
    assert_eq!(driver.commands(id), ["EVALSHA 1 k 4", "EVAL 1 k 4"]);
}

#[test]
fn a_forgotten_script_of_a_batch_is_sent_once_more_with_all_rows() {
    let (mut driver, id) = Driver::live(ROWS);
    for round in 0..2 {
        let first = driver.set(0, LONG);
        driver.set(1, LONG);
        driver.set(2, LONG);
        driver.input(Input::Flush);
        if round == 0 {
            driver.says(id, ":0\r\n*2\r\n:1\r\n:2\r\n");
            driver.taken(id);
            driver.outcomes();
            continue;
        }
        assert_eq!(driver.commands(id), ["EVALSHA 1 k 0", "EVALSHA 2 k k 11 1 0 1 2"]);
        driver.says(id, ":0\r\n-NOSCRIPT No matching script. Please use EVAL.\r\n");
        assert_eq!(driver.commands(id), ["EVAL 2 k k 11 1 0 1 2"]);
        driver.says(id, "*2\r\n:1\r\n:2\r\n");
        let ids: Vec<_> = driver.outcomes().into_iter().map(|(id, outcome)| (id, outcome.is_ok())).collect();
        assert_eq!(ids, [(first, true), (first + 1, true), (first + 2, true)]);
    }
}

#[test]
fn a_call_without_a_reply_ends_its_connection_and_the_calls_on_it() {
    let (mut driver, id) = Driver::live(1);
    let hasty = driver.set("hasty", SHORT);
    let patient = driver.set("patient", LONG);
    driver.input(Input::Flush);
    driver.pass(SHORT - MS);
    assert!(driver.streams.contains_key(&id) && driver.replies.is_empty());
    driver.pass(MS);
    assert!(!driver.streams.contains_key(&id), "the connection is reset");
    let expected =
        [(hasty, failed(Kind::Timeout, Unknown)), (patient, failed(Kind::ConnectionLost, Unknown))];
    assert_eq!(driver.outcomes(), expected);
    // A reply that arrives after the reset has no effect.
    driver.says(id, ":1\r\n");
    driver.set("next", LONG);
    driver.pass(Duration::from_millis(20));
    assert_eq!((driver.dialed.len(), driver.outcomes()), (2, vec![]));
}

#[test]
fn a_server_that_answers_one_call_after_the_other_keeps_its_connection() {
    let (mut driver, id) = Driver::live(1);
    let calls: Vec<_> = (0..50).map(|value| driver.set(value, SHORT)).collect();
    driver.input(Input::Flush);
    for call in &calls[..39] {
        driver.pass(SHORT / 20);
        driver.says(id, ":1\r\n");
        assert_eq!(driver.outcomes(), [(*call, Ok(Reply::Int(1)))]);
    }
    // Two timeouts after their submission every call has ended.
    driver.pass(SHORT / 20);
    let outcomes = driver.outcomes();
    assert_eq!(outcomes.len(), 11);
    assert!(outcomes.iter().all(|(_, outcome)| *outcome == failed(Kind::Timeout, Unknown)));
    assert!(driver.streams.is_empty());
}

#[test]
fn calls_without_room_follow_in_order_and_the_queue_goes_on_after_a_cut() {
    let crowd = IN_FLIGHT_MAX + 100;
    let (mut driver, id) = Driver::live(1);
    driver.set(0, LONG);
    driver.says(id, ":0\r\n");
    driver.outcomes();
    let calls: Vec<_> = (0..crowd).map(|value| driver.set(value, LONG)).collect();
    driver.input(Input::Flush);
    assert_eq!(driver.commands(id).len(), 1 + IN_FLIGHT_MAX);
    driver.says(id, ":1\r\n:1\r\n");
    assert_eq!(driver.commands(id), [512, 513].map(|value| format!("EVALSHA 1 k {value}")));
    driver.hang_up(id);
    let outcomes = driver.outcomes();
    assert_eq!(outcomes.iter().map(|(call, _)| *call).collect::<Vec<_>>(), calls[..514]);
    assert!(outcomes[2..].iter().all(|(_, outcome)| *outcome == failed(Kind::ConnectionLost, Unknown)));
    // The connection was useful, so the next attempt begins at once.
    assert_eq!(driver.dialed.len(), 2);
    let id = driver.accept();
    driver.says(id, "+PONG\r\n");
    let sent = driver.commands(id);
    assert_eq!(
        (sent.len(), &*sent[0], &*sent[1], &*sent[2]),
        (99, "PING", "EVAL 1 k 514", "EVALSHA 1 k 515")
    );
}

#[test]
fn a_call_without_room_ends_as_not_applied() {
    let (mut driver, id) = Driver::live(1);
    for _ in 0..IN_FLIGHT_MAX {
        driver.set("sent", LONG);
    }
    driver.input(Input::Flush);
    let unsent = driver.set("unsent", SHORT);
    driver.pass(SHORT);
    assert_eq!(driver.outcomes(), [(unsent, failed(Kind::Timeout, No))]);
    // While the server answers others, a call waits for one and a half timeouts.
    let begun = driver.now;
    let unsent = driver.set("unsent", SHORT);
    while driver.replies.iter().all(|(call, _)| *call != unsent) {
        // Each reply makes room for a call of a longer timeout that came before.
        driver.pass(MS);
        if driver.now.since(begun) == SHORT - MS {
            driver.says(id, ":");
        }
    }
    assert_eq!(driver.now.since(begun), SHORT);
}

#[test]
fn an_unreachable_server_is_dialed_at_one_pace_for_any_number_of_calls() {
    for waiters in [1, 300] {
        let mut driver = Driver::new(1);
        let end = driver.now + Duration::from_secs(10);
        while driver.now < end {
            // The engine tries again for each of its waiters when a call fails.
            (0..waiters).for_each(|_| _ = driver.set("v", LONG));
            if driver.dialed.len() == driver.opened.len() {
                driver.pass(driver.wire.timer().since(driver.now));
            }
            driver.opened.push(Ok(()));
            driver.refuse();
            let outcomes = driver.outcomes();
            assert!(outcomes.len() >= waiters);
            assert!(outcomes.iter().all(|(_, outcome)| *outcome == failed(Kind::Unreachable, No)));
        }
        // The pauses are at most 20, 40, 80, 160 and 320 ms, and then 500 ms each, and at least half of that.
        assert!((24..=48).contains(&driver.dialed.len()), "{}", driver.dialed.len());
    }
}

#[test]
fn a_call_that_ends_in_the_pause_reports_the_last_failed_attempt() {
    let mut driver = Driver::new(1);
    driver.set("v", SHORT);
    driver.refuse();
    assert_eq!(driver.outcomes(), [(1, failed(Kind::Unreachable, No))]);
    let late = driver.set("late", MS);
    driver.pass(MS);
    assert_eq!(driver.outcomes(), [(late, failed(Kind::Unreachable, No))]);
    driver.set("v", LONG);
    driver.pass(Duration::from_secs(1));
    assert_eq!(driver.dialed.len(), 2);
    let waiting = driver.set("waiting", SHORT);
    driver.pass(SHORT);
    assert_eq!(driver.outcomes(), [(waiting, failed(Kind::Timeout, No))], "another attempt is under way");
}

#[test]
fn an_attempt_ends_within_its_limit() {
    let options = ConnectOptions::default().timeout(SHORT);
    for accepts in [false, true] {
        let mut driver = Driver::with(options.clone().batch_rows(1).at_once(1));
        driver.set("v", LONG);
        if accepts {
            let id = driver.accept();
            driver.says(id, "+PO");
        }
        driver.pass(SHORT);
        let kind = if accepts { Kind::Timeout } else { Kind::Unreachable };
        assert_eq!(driver.outcomes(), [(1, failed(kind, No))]);
        assert!(driver.streams.is_empty());
        // A stream that comes too late is not used.
        driver.streams.insert(driver.dialed[0], Vec::new());
        driver.input(Input::Connected(driver.dialed[0]));
        assert!(driver.wire.unwritten(driver.dialed[0]).is_empty());
    }
}

#[test]
fn a_useless_connection_is_not_replaced_at_once_and_a_useful_one_is() {
    let (mut driver, id) = Driver::live(1);
    driver.set("v", LONG);
    driver.says(id, "-READONLY You can't write against a read only replica.\r\n");
    driver.set("v", LONG);
    assert_eq!(driver.dialed.len(), 1, "it was of no use");
    driver.pass(Duration::from_millis(20));
    assert_eq!(driver.dialed.len(), 2);
    let id = driver.accept();
    driver.says(id, "+PONG\r\n");
    driver.says(id, ":1\r\n");
    driver.set("v", LONG);
    driver.says(id, "-READONLY a failover\r\n");
    driver.set("v", LONG);
    assert_eq!(driver.dialed.len(), 3);
}

#[test]
fn a_connection_that_ends_without_a_call_is_made_anew_at_the_pace_of_attempts() {
    let (mut driver, id) = used();
    driver.hang_up(id);
    assert_eq!(driver.dialed.len(), 2, "the connection was useful");
    let end = driver.now + Duration::from_secs(10);
    while driver.now < end {
        driver.refuse();
        driver.pass(driver.wire.timer().since(driver.now));
    }
    assert!((24..=48).contains(&driver.dialed.len()), "{}", driver.dialed.len());
    assert_eq!(driver.replaced, []);
    let id = driver.accept();
    driver.says(id, "+PONG\r\n");
    assert_eq!(driver.replaced, [Scope::All], "the holds are checked now, and not at their next renewal");
}

#[test]
fn a_server_that_refuses_the_client_is_asked_again_by_a_call_alone() {
    let (mut driver, id) = used();
    driver.hang_up(id);
    driver.pass(Duration::from_secs(1));
    let id = driver.accept();
    driver.says(id, "-NOAUTH Authentication required.\r\n");
    driver.pass(Duration::from_secs(10));
    assert_eq!(driver.dialed.len(), 2);
    driver.set("v", LONG);
    assert_eq!(driver.dialed.len(), 3);
}

#[test]
fn a_closed_wire_makes_no_connection_anew() {
    let (mut driver, _) = used();
    driver.input(Input::Close);
    driver.input(Input::Flush);
    driver.pass(Duration::from_secs(10));
    assert_eq!(driver.dialed.len(), 1);
}

#[test]
fn a_connection_that_was_of_no_use_comes_back_with_the_next_call() {
    let (mut driver, id) = Driver::live(1);
    driver.hang_up(id);
    driver.pass(Duration::from_secs(10));
    assert_eq!(driver.dialed.len(), 1, "the server closes what is idle, and nothing was granted over it");
    driver.set("v", LONG);
    assert_eq!(driver.dialed.len(), 2);
}

#[test]
fn a_connection_of_a_server_that_answers_no_more_is_made_anew() {
    let (mut driver, _) = used();
    driver.set("v", SHORT);
    driver.pass(SHORT * 3);
    assert_eq!(driver.outcomes().last(), Some(&(2, failed(Kind::Timeout, Unknown))));
    assert_eq!(driver.dialed.len(), 2, "without a further call");
}

#[test]
fn a_replaced_connection_brings_its_replies_and_ends_with_the_last() {
    let (mut driver, id) = Driver::live(1);
    let first = driver.set(0, LONG);
    (1..=2).for_each(|value| _ = driver.set(value, LONG));
    driver.input(Input::Flush);
    driver.says(id, ":0\r\n-READONLY a failover\r\n");
    assert_eq!(driver.outcomes(), [(first, Ok(Reply::Int(0))), (first + 1, failed(Kind::ReadOnly, No))]);
    assert!(driver.streams.contains_key(&id));
    driver.set("next", LONG);
    let next = driver.accept();
    assert_eq!(driver.dialed.len(), 2);
    driver.says(id, ":2\r\n");
    assert_eq!(driver.outcomes(), [(first + 2, Ok(Reply::Int(2)))]);
    assert_eq!(driver.streams.keys().collect::<Vec<_>>(), [&next]);
}

#[test]
fn replaced_connections_are_bounded() {
    let (mut driver, mut id) = Driver::live(1);
    for _ in 0..10 {
        driver.set("spoils", LONG);
        driver.set("stays", LONG);
        driver.input(Input::Flush);
        driver.says(id, ":1\r\n");
        driver.set("spoils", LONG);
        driver.set("stays", LONG);
        driver.input(Input::Flush);
        driver.says(id, "-READONLY a failover\r\n");
        driver.set("next", LONG);
        driver.pass(Duration::from_secs(1));
        id = driver.accept();
        driver.says(id, "+PONG\r\n");
        assert!(driver.streams.len() <= 5, "{}", driver.streams.len());
    }
    let lost = driver
        .outcomes()
        .into_iter()
        .filter(|(_, outcome)| *outcome == failed(Kind::ConnectionLost, Unknown));
    assert!(lost.count() > 0);
}

#[test]
fn a_reply_without_a_command_ends_the_connection() {
    for surplus in [":1\r\n", ":", "*1\r\n", "HTTP"] {
        let (mut driver, id) = Driver::live(1);
        driver.set("v", LONG);
        driver.says(id, format!(":1\r\n{surplus}"));
        assert_eq!(driver.outcomes(), [(1, Ok(Reply::Int(1)))], "{surplus}");
        assert!(driver.streams.is_empty(), "{surplus}");
    }
}

#[test]
fn a_breach_leaves_the_calls_in_flight_unknown() {
    for says in [
        "HTTP/1.1 400 Bad Request\r\n",
        "$4611686018427387904\r\n",
        "*99999999999999999999\r\n",
        "%1\r\n",
        ":x\r\n",
    ] {
        let (mut driver, id) = Driver::live(1);
        driver.set(1, LONG);
        driver.set(2, LONG);
        driver.input(Input::Flush);
        driver.says(id, says);
        let malformed = failed(Kind::Malformed, Unknown);
        assert_eq!(driver.outcomes(), [(1, malformed.clone()), (2, malformed)], "{says}");
        assert!(driver.streams.is_empty());
    }
}

#[test]
fn a_server_of_resp3_may_push_between_replies() {
    let mut driver = Driver::new(1);
    driver.input(Input::Open);
    let id = driver.accept();
    driver.says(id, "+PONG\r\n%1\r\n$5\r\nproto\r\n:3\r\n:0\r\n:1\r\n");
    driver.set(1, LONG);
    driver.says(id, ">2\r\n+invalidate\r\n*1\r\n+k\r\n_\r\n>1\r\n");
    driver.says(id, "+x\r\n");
    assert_eq!(driver.outcomes(), [(1, Ok(Reply::Nil))]);
    assert!(driver.streams.contains_key(&id));
}

#[test]
fn an_abandoned_call_makes_room_and_its_reply_goes_to_no_other() {
    let (mut driver, id) = Driver::live(1);
    let calls: Vec<_> = (0..IN_FLIGHT_MAX).map(|value| driver.set(value, LONG)).collect();
    driver.input(Input::Flush);
    let [waiting, unsent, last] = ["waiting", "unsent", "last"].map(|value| driver.set(value, LONG));
    driver.input(Input::Abandon(CallId(unsent)));
    driver.taken(id);
    driver.input(Input::Abandon(CallId(calls[0])));
    assert_eq!(driver.commands(id), ["EVALSHA 1 k waiting"]);
    driver.input(Input::Abandon(CallId(calls[1])));
    assert_eq!(driver.commands(id), ["EVALSHA 1 k last"], "an unsent call that was abandoned is never sent");
    for reply in 0..IN_FLIGHT_MAX + 2 {
        driver.says(id, format!(":{reply}\r\n"));
    }
    let outcomes = driver.outcomes();
    assert_eq!(outcomes[0], (calls[2], Ok(Reply::Int(2))));
    let count = IN_FLIGHT_MAX as i64;
    assert_eq!(
        outcomes[outcomes.len() - 2..],
        [(waiting, Ok(Reply::Int(count))), (last, Ok(Reply::Int(count + 1)))]
    );
}

#[test]
fn a_closed_wire_refuses_calls_and_ends_the_started_ones() {
    let (mut driver, id) = Driver::live(1);
    driver.set("started", LONG);
    driver.set("gathered", LONG);
    driver.input(Input::Close);
    let late = driver.set("late", LONG);
    let (lost, closed) = (failed(Kind::ConnectionLost, Unknown), failed(Kind::Closed, No));
    let mut outcomes = driver.outcomes();
    outcomes.sort_by_key(|(call, _)| *call);
    assert_eq!(outcomes, [(1, lost), (2, closed.clone()), (late, closed)]);
    assert!(!driver.streams.contains_key(&id));
    driver.pass(Duration::from_secs(100));
    assert_eq!((driver.dialed.len(), driver.wire.timer()), (1, Moment::NEVER));
}

#[test]
fn a_server_that_says_more_than_its_greeting_is_not_used() {
    let mut driver = Driver::new(1);
    driver.input(Input::Open);
    let id = driver.accept();
    driver.says(id, format!("{GREETING}:1\r\n"));
    assert_eq!(driver.opened[0].as_ref().unwrap_err().kind, Kind::Malformed);
    assert!(driver.streams.is_empty());
}

#[test]
fn a_user_without_the_probes_channel_is_checked_at_the_first_call_of_each_script() {
    let mut driver = Driver::new(ROWS);
    driver.input(Input::Open);
    let id = driver.accept();
    driver.says(id, "+PONG\r\n-ERR unknown command\r\n-NOPERM no permissions to access a channel\r\n:1\r\n");
    driver.taken(id);
    let channel = |value| Call::of(&WITH_CHANNEL).key("key", "k").arg("channel", value);
    driver.submit(channel("c"), LONG);
    driver.submit(channel("d"), LONG);
    driver.submit(channel("e"), LONG);
    driver.input(Input::Flush);
    let checked = ["c", "d", "e"].map(|value| format!("EVAL 1 k {value} {value} PUBLISH SUBSCRIBE 1"));
    assert_eq!(driver.commands(id), checked);
    driver.says(id, ":1\r\n-NOPERM the user may not use PUBLISH\r\n:3\r\n");
    assert_eq!(driver.outcomes()[1], (2, failed(Kind::PermissionDenied, No)));
    driver.submit(channel("f"), LONG);
    assert_eq!(driver.commands(id), ["EVAL 1 k f"]);
    driver.submit(channel("g"), LONG);
    driver.submit(channel("h"), LONG);
    driver.input(Input::Flush);
    assert_eq!(driver.commands(id), ["EVAL 2 k k 11 1 0 g h"], "the right is certain");
}

static WITH_CHANNEL: leasehold_proto::Script = leasehold_proto::Script::new(
    Verb::Acquire,
    "-- KEYS[1] key string any\n-- ARGV[1] channel string any\nreturn ARGV[1]",
);
