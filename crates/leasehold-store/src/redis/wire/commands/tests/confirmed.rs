//! Tests of calls that replicas confirm, in groups on two connections.

use std::time::Duration;

use leasehold_proto::{Applied, Channel, Reply, StoreErrorKind as Kind};

use crate::confirm::{Confirm, Confirmation, OnMissing};
use crate::redis::connect::ConnectOptions;
use crate::redis::wire::harness::{Driver, LONG, SHORT, delete};
use crate::redis::wire::{ConnId, Input};

const REPLICAS: &str = "role:master\r\nconnected_slaves:2\r\nslave0:ip=a,port=1,state=online,offset=1,lag=0\r\nslave1:ip=b,port=1,state=wait_bgsave,offset=0,lag=0\r\n";

/// Returns a driver whose first call has opened the first of the two connections for groups, and that connection.
fn driver(replicas: Confirm) -> (Driver, ConnId) {
    driver_with(Confirmation::new(replicas, Duration::from_millis(500)))
}

fn driver_with(terms: Confirmation) -> (Driver, ConnId) {
    let options = ConnectOptions::default().resp3(false).confirmation(Some(terms));
    let mut driver = Driver::with(options);
    driver.input(Input::Open);
    let plain = driver.accept();
    driver.says(plain, if terms.fsync { "+PONG\r\n*2\r\n:1\r\n:0\r\n" } else { "+PONG\r\n" });
    driver.says(plain, "-ERR unknown command 'HELLO'\r\n:0\r\n:1\r\n");
    assert_eq!(driver.opened, [Ok(())]);
    driver.taken(plain);
    driver.set(0, LONG);
    let id = driver.accept();
    driver.says(id, "+PONG\r\n");
    (driver, id)
}

fn counted(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

#[test]
fn a_call_counts_when_its_replicas_have_acknowledged() {
    let (mut driver, id) = driver(Confirm::AtLeast(2));
    assert_eq!(driver.commands(id)[1..], ["EVAL 1 k 0", "WAIT 2 500"]);
    driver.says(id, ":7\r\n");
    assert_eq!(driver.outcomes(), [], "the replicas have not answered");
    driver.says(id, ":2\r\n");
    assert_eq!(driver.outcomes(), [(1, Ok(Reply::Int(7)))]);
}

#[test]
fn a_call_that_too_few_replicas_acknowledged_is_unconfirmed() {
    let (mut driver, id) = driver(Confirm::AtLeast(2));
    driver.says(id, ":7\r\n:1\r\n");
    let (call, outcome) = driver.replies.pop().unwrap();
    let error = outcome.unwrap_err();
    assert_eq!((call, error.kind, error.applied), (1, Kind::Unconfirmed, Applied::Unknown));
    let text = std::error::Error::source(&error).unwrap().to_string();
    assert!(text.starts_with("1 of 2 replicas acknowledged"), "{text}");
}

/// A key of the other half of the slots than `k`.
fn other() -> &'static str {
    let slot = |key: &str| Channel::new(key).slot() % 2;
    ["a", "b", "c", "d"].into_iter().find(|key| slot(key) != slot("k")).unwrap()
}

#[test]
fn calls_gather_while_the_group_of_their_half_of_the_slots_is_on_its_way() {
    let (mut driver, first) = driver(Confirm::AtLeast(1));
    driver.commands(first);
    driver.set_at(other(), 1);
    let second = driver.accept();
    driver.says(second, "+PONG\r\n");
    assert_eq!(driver.commands(second)[1..], [&format!("EVAL 1 {} 1", other()), "WAIT 1 500"]);
    for value in 2..=4 {
        driver.set(value, LONG);
    }
    assert!(driver.commands(first).is_empty() && driver.commands(second).is_empty());
    driver.says(first, ":0\r\n:1\r\n");
    let sent = driver.commands(first);
    assert_eq!(sent, ["EVAL 3 k k k 111 1 0 2 3 4", "WAIT 1 500"]);
    driver.says(second, ":1\r\n:1\r\n");
    driver.says(first, "*3\r\n:2\r\n:3\r\n:4\r\n:1\r\n");
    let ids: Vec<u64> =
        driver.outcomes().into_iter().map(|(id, outcome)| outcome.map(|_| id).unwrap()).collect();
    assert_eq!(ids, [1, 2, 3, 4, 5]);
}

#[test]
fn an_attempt_does_not_overtake_the_release_before_it() {
    let (mut driver, id) = driver(Confirm::AtLeast(1));
    driver.says(id, ":0\r\n:1\r\n");
    driver.taken(id);
    driver.submit(delete(1), LONG);
    driver.set(2, LONG);
    assert_eq!(driver.commands(id), ["EVAL 1 k 1"], "a group of releases waits for no replica");
    driver.says(id, ":1\r\n");
    assert_eq!(driver.commands(id), ["EVALSHA 1 k 2", "WAIT 1 500"]);
}

#[test]
fn a_release_waits_for_no_replica() {
    let (mut driver, id) = driver(Confirm::AtLeast(1));
    driver.submit(delete(1), LONG);
    driver.set(2, LONG);
    driver.says(id, ":0\r\n:1\r\n");
    driver.outcomes();
    driver.taken(id);
    driver.says(id, "*2\r\n:1\r\n:7\r\n");
    assert_eq!(driver.outcomes(), [(2, Ok(Reply::Int(1)))]);
    driver.says(id, ":1\r\n");
    assert_eq!(driver.outcomes(), [(3, Ok(Reply::Int(7)))]);
}

#[test]
fn an_error_of_a_call_that_did_not_run_waits_for_no_replica() {
    let (mut driver, id) = driver(Confirm::AtLeast(1));
    driver.says(id, "-OOM command not allowed\r\n");
    assert_eq!(driver.outcomes(), [(1, Err((Kind::OutOfMemory, Applied::No)))]);
    driver.says(id, ":1\r\n");
    assert_eq!(driver.outcomes(), []);
}

#[test]
fn a_forgotten_script_is_covered_by_a_wait_of_its_own() {
    let (mut driver, id) = driver(Confirm::AtLeast(1));
    driver.says(id, ":0\r\n:1\r\n");
    driver.outcomes();
    driver.taken(id);
    driver.set(1, LONG);
    assert_eq!(driver.commands(id), ["EVALSHA 1 k 1", "WAIT 1 500"]);
    driver.says(id, "-NOSCRIPT No matching script.\r\n");
    assert_eq!(driver.commands(id), ["EVAL 1 k 1"]);
    driver.says(id, ":1\r\n");
    assert_eq!(driver.commands(id), ["WAIT 1 500"], "the first one was before the script");
    driver.says(id, ":5\r\n");
    assert_eq!(driver.outcomes(), []);
    driver.says(id, ":1\r\n");
    assert_eq!(driver.outcomes(), [(2, Ok(Reply::Int(5)))]);
}

#[test]
fn all_means_the_replicas_that_are_connected_now() {
    let (mut driver, id) = driver(Confirm::All { at_least: 0 });
    assert_eq!(driver.commands(id)[1..], ["INFO replication"]);
    driver.says(id, counted(REPLICAS));
    assert_eq!(driver.commands(id), ["EVAL 1 k 0", "WAIT 1 500"], "one of two is online");
    driver.says(id, ":0\r\n:1\r\n");
    driver.outcomes();
    driver.set(1, LONG);
    assert_eq!(driver.commands(id), ["EVALSHA 1 k 1", "WAIT 1 500"], "the count holds for a second");
    driver.says(id, ":0\r\n:0\r\n");
    assert_eq!(driver.outcomes(), [(2, Err((Kind::Unconfirmed, Applied::Unknown)))]);
    driver.set(2, LONG);
    assert_eq!(driver.commands(id), ["INFO replication"], "a replica may have left");
    driver.says(id, counted("role:master\r\nconnected_slaves:0\r\n"));
    assert_eq!(driver.commands(id), ["EVALSHA 1 k 2", "WAIT 0 500"]);
}

#[test]
fn a_server_that_is_no_master_any_more_confirms_nothing_and_is_left() {
    let (mut driver, id) = driver(Confirm::AtLeast(0));
    driver.says(id, ":0\r\n-UNBLOCKED force unblock from blocking operation\r\n");
    assert_eq!(driver.outcomes(), [(1, Err((Kind::Unconfirmed, Applied::Unknown)))]);
    assert!(!driver.streams.contains_key(&id));
}

#[test]
fn a_group_that_ends_without_an_answer_is_unknown() {
    let (mut driver, id) = driver(Confirm::AtLeast(1));
    driver.says(id, ":0\r\n");
    driver.hang_up(id);
    assert_eq!(driver.outcomes(), [(1, Err((Kind::ConnectionLost, Applied::Unknown)))]);
    driver.pass(Duration::from_secs(1));
    let call = driver.set(1, SHORT);
    let id = driver.accept();
    driver.says(id, "+PONG\r\n");
    driver.says(id, ":0\r\n");
    driver.pass(Duration::from_secs(1));
    let outcomes = driver.outcomes();
    assert!(matches!(outcomes.as_slice(), [(id, Err((_, Applied::Unknown)))] if *id == call), "{outcomes:?}");
    assert!(driver.reset.contains(&id), "a silent group ends with its connection");
}

#[test]
fn a_submitter_that_has_left_gets_no_outcome() {
    let (mut driver, id) = driver(Confirm::AtLeast(1));
    driver.says(id, ":0\r\n");
    driver.input(Input::Abandon(crate::redis::wire::CallId(1)));
    driver.says(id, ":1\r\n");
    assert_eq!(driver.outcomes(), []);
}

#[test]
fn a_policy_that_warns_does_without_replicas_that_are_missing_and_says_so_once() {
    let terms =
        Confirmation::new(Confirm::AtLeast(2), Duration::from_millis(500)).on_missing(OnMissing::Warn);
    let (mut driver, id) = driver_with(terms);
    assert_eq!(driver.commands(id)[1..], ["INFO replication"]);
    driver.says(id, counted(REPLICAS));
    assert_eq!(driver.commands(id), ["EVAL 1 k 0", "WAIT 1 500"], "one of two is online");
    driver.says(id, ":0\r\n:1\r\n");
    driver.set(1, LONG);
    driver.says(id, ":0\r\n:1\r\n");
    assert!(driver.outcomes().into_iter().all(|(_, outcome)| outcome.is_ok()));
    assert_eq!(driver.missing, [(1, 2)], "once");
    driver.now = driver.now + Duration::from_secs(2);
    let both = REPLICAS.replace("wait_bgsave", "online");
    for (info, wait) in [(both.as_str(), "WAIT 2 500"), (REPLICAS, "WAIT 1 500")] {
        driver.taken(id);
        driver.set(2, LONG);
        driver.says(id, counted(info));
        assert_eq!(driver.commands(id).last().unwrap(), wait);
        driver.says(id, ":0\r\n:2\r\n");
        driver.now = driver.now + Duration::from_secs(2);
    }
    assert_eq!(driver.missing, [(1, 2), (1, 2)], "anew, after they were there");
}

#[test]
fn a_call_that_must_be_on_disk_waits_for_the_disks() {
    let terms = Confirmation::new(Confirm::AtLeast(1), Duration::from_millis(500)).fsync(true);
    let (mut driver, id) = driver_with(terms);
    assert_eq!(driver.commands(id)[1..], ["EVAL 1 k 0", "WAITAOF 1 1 500"]);
    driver.says(id, ":7\r\n*2\r\n:1\r\n:1\r\n");
    assert_eq!(driver.outcomes(), [(1, Ok(Reply::Int(7)))]);
    for (answer, says) in [(":0\r\n:1\r\n", "to its disk"), (":1\r\n:0\r\n", "0 of 1 replicas")] {
        driver.set(1, LONG);
        driver.says(id, format!(":7\r\n*2\r\n{answer}"));
        let error = driver.replies.pop().unwrap().1.unwrap_err();
        assert_eq!((error.kind, error.applied), (Kind::Unconfirmed, Applied::Unknown));
        let text = std::error::Error::source(&error).unwrap().to_string();
        assert!(text.contains(says), "{text}");
    }
}

#[test]
fn a_server_that_cannot_say_what_is_on_its_disk_is_refused() {
    for (answer, says) in [
        ("-ERR unknown command 'WAITAOF', with args beginning with: '1' ", "has no WAITAOF"),
        ("-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.", "appendonly yes"),
    ] {
        let terms = Confirmation::new(Confirm::AtLeast(0), SHORT).fsync(true);
        let mut driver = Driver::with(ConnectOptions::default().confirmation(Some(terms)));
        driver.input(Input::Open);
        let id = driver.accept();
        driver.says(id, format!("+PONG\r\n{answer}\r\n"));
        let error = driver.opened.pop().unwrap().unwrap_err();
        let text = std::error::Error::source(&error).unwrap().to_string();
        assert!(text.contains(says), "{text}");
    }
}
