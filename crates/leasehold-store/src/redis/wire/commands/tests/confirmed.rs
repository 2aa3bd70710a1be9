//! Tests of calls that replicas confirm, in groups on two connections.

mod acknowledgments;

use std::time::Duration;

use leasehold_proto::engine::Subject;
use leasehold_proto::recipe::fence;
use leasehold_proto::recipe::reentrant::REENTRANT;
use leasehold_proto::recipe::semaphore::SEMAPHORE;
use leasehold_proto::{
    Applied, Call, Channel, Confirm, Name, Reply, Scope, Script, StoreErrorKind as Kind, Verb,
};

use crate::confirm::{Confirmation, OnMissing};
use crate::redis::connect::ConnectOptions;
use crate::redis::wire::harness::{Driver, LONG, SHORT, delete, set};
use crate::redis::wire::{ConnId, Input};

const REPLICAS: &str = "role:master\r\nconnected_slaves:2\r\nslave0:ip=a,port=1,state=online,offset=1,lag=0\r\nslave1:ip=b,port=1,state=wait_bgsave,offset=0,lag=0\r\n";

/// Returns a driver of a client without a policy, and its open connection.
fn plain_driver(terms: Confirmation) -> (Driver, ConnId) {
    let mut driver = Driver::with(ConnectOptions::default().resp3(false).confirmation(terms));
    let plain = driver.open();
    (driver, plain)
}

/// Submits an acquire with a policy of its own.
fn set_with(driver: &mut Driver, value: u64, replicas: Confirm) -> u64 {
    driver.submit(set(value).confirmed_by(Some(replicas)), LONG)
}

/// Returns a driver whose first call has opened the first of the two connections for groups, and that connection.
fn driver(replicas: Confirm) -> (Driver, ConnId) {
    driver_with(Confirmation::new(replicas, Duration::from_millis(500)))
}

fn driver_with(terms: Confirmation) -> (Driver, ConnId) {
    let (mut driver, _) = greeted(terms);
    driver.set(0, LONG);
    let id = driver.accept();
    driver.says(id, "+PONG\r\n");
    (driver, id)
}

/// Returns a driver of a client with a policy, and the open connection of the calls without one.
fn greeted(terms: Confirmation) -> (Driver, ConnId) {
    let mut driver = Driver::with(ConnectOptions::default().resp3(false).confirmation(terms));
    driver.input(Input::Open);
    let plain = driver.accept();
    let waited = if terms.fsync { "*2\r\n:1\r\n:0\r\n" } else { ":0\r\n" };
    driver.says(plain, format!("+PONG\r\n{waited}-ERR unknown command 'HELLO'\r\n:0\r\n:1\r\n"));
    assert_eq!(driver.opened, [Ok(())]);
    driver.taken(plain);
    (driver, plain)
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

#[test]
fn a_refused_wait_is_told_in_the_words_of_the_server() {
    let (mut driver, id) = driver(Confirm::AtLeast(1));
    driver.says(id, ":7\r\n-NOPERM this user has no permissions to run the 'wait' command\r\n");
    let (call, outcome) = driver.replies.pop().unwrap();
    let error = outcome.unwrap_err();
    assert_eq!((call, error.kind, error.applied), (1, Kind::Unconfirmed, Applied::Unknown));
    let text = std::error::Error::source(&error).unwrap().to_string();
    assert!(
        text.contains("refused to wait for its replicas") && text.contains("run the 'wait' command"),
        "{text}"
    );
}

#[test]
fn a_refusal_does_not_wait_for_replicas_that_are_away() {
    let (mut driver, id) = driver(Confirm::AtLeast(2));
    driver.says(id, ":7\r\n:2\r\n");
    driver.outcomes();
    let subject = Subject::new(&Name::new("k").unwrap(), &REENTRANT);
    let refused = driver.submit(subject.confirmed(set(1), None), LONG);
    let granted = driver.submit(subject.confirmed(set(2), None), LONG);
    driver.says(id, ":20000\r\n");
    assert_eq!(
        driver.outcomes(),
        [(refused, Ok(Reply::Int(20_000)))],
        "the lock is held, and that is certain"
    );
    driver.says(id, ":2\r\n");
    driver.says(id, "$-1\r\n");
    assert_eq!(driver.outcomes(), [], "a grant waits");
    driver.says(id, ":2\r\n");
    assert_eq!(driver.outcomes(), [(granted, Ok(Reply::Nil))]);
}

#[test]
fn the_release_of_permits_waits_for_replicas_and_that_of_a_lock_does_not() {
    let (mut driver, id) = driver(Confirm::AtLeast(2));
    driver.says(id, ":7\r\n:2\r\n");
    driver.outcomes();
    let (seats, lock) = (&SEMAPHORE, &REENTRANT);
    let [permits, lock] = [seats, lock].map(|recipe| {
        let subject = Subject::new(&Name::new("k").unwrap(), recipe);
        driver.submit(subject.confirmed(delete(1), None), LONG)
    });
    driver.says(id, ":1\r\n");
    assert_eq!(driver.outcomes(), [], "what a failover brings back of permits stays");
    driver.says(id, ":2\r\n");
    assert_eq!(driver.outcomes(), [(permits, Ok(Reply::Int(1)))]);
    driver.says(id, ":1\r\n");
    assert_eq!(driver.outcomes(), [(lock, Ok(Reply::Int(1)))]);
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
fn renewals_and_questions_of_a_hand_off_count_when_their_replicas_have_acknowledged() {
    static RENEW: Script = Script::new(Verb::Renew, "-- KEYS[1] key string any\nreturn 1");
    static HAND_OFF: Script = Script::new(Verb::HandOff, "-- KEYS[1] key string any\nreturn 2");
    for script in [&RENEW, &HAND_OFF] {
        let (mut driver, id) = driver(Confirm::AtLeast(1));
        driver.says(id, ":1\r\n:1\r\n");
        driver.outcomes();
        driver.taken(id);
        let call = driver.submit(Call::with(script, ["k"], [""; 0]), LONG);
        assert_eq!(driver.commands(id), ["EVAL 1 k", "WAIT 1 500"]);
        driver.says(id, ":1\r\n");
        assert_eq!(driver.outcomes(), [], "the replicas have not answered");
        driver.says(id, ":0\r\n");
        assert_eq!(driver.outcomes(), [(call, Err((Kind::Unconfirmed, Applied::Unknown)))]);
    }
}

#[test]
fn a_fenced_write_counts_when_its_replicas_have_acknowledged() {
    let (mut driver, id) = driver(Confirm::AtLeast(1));
    driver.says(id, ":0\r\n:1\r\n");
    driver.outcomes();
    driver.taken(id);
    let call = driver.submit(fence::set(7, &Name::new("k").unwrap(), b"v"), LONG);
    assert_eq!(driver.commands(id), ["EVAL 2 k leasehold_fence:{k} v 7", "WAIT 1 500"]);
    driver.says(id, ":1\r\n");
    assert_eq!(driver.outcomes(), [], "the replicas have not answered");
    driver.says(id, ":1\r\n");
    assert_eq!(driver.outcomes(), [(call, Ok(Reply::Int(1)))]);
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
    let (mut driver, id) = driver(Confirm::all(0));
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
fn the_replicas_are_counted_again_on_the_next_connection_however_soon_it_opens() {
    let (mut driver, id) = driver(Confirm::all(0));
    driver.says(id, counted(REPLICAS));
    driver.says(id, ":0\r\n:1\r\n");
    driver.outcomes();
    driver.hang_up(id);
    let again = driver.accept();
    assert_ne!(again, id);
    driver.says(again, "+PONG\r\n");
    driver.taken(again);
    driver.set(1, LONG);
    assert_eq!(driver.commands(again), ["INFO replication"], "the server may be another one");
    driver.says(again, counted(&REPLICAS.replace("wait_bgsave", "online")));
    assert_eq!(driver.commands(again), ["EVAL 1 k 1", "WAIT 2 500"]);
}

#[test]
fn a_group_waits_for_its_replicas_as_long_as_the_options_say() {
    for (within, wait) in [(Duration::from_millis(1_667), "WAIT 1 1667"), (Duration::ZERO, "WAIT 1 1")] {
        let (mut driver, id) = driver_with(Confirmation::new(Confirm::AtLeast(1), within));
        assert_eq!(driver.commands(id)[1..], ["EVAL 1 k 0", wait], "zero is no limit to a server");
        driver.says(id, ":0\r\n:1\r\n");
        assert_eq!(driver.outcomes(), [(1, Ok(Reply::Int(0)))]);
    }
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

/// Returns the reason why a client with this policy does not use a server that answers so behind its PING.
fn refusal(terms: Confirmation, answer: &str) -> String {
    let mut driver = Driver::with(ConnectOptions::default().confirmation(terms));
    driver.input(Input::Open);
    let id = driver.accept();
    driver.says(id, format!("+PONG\r\n{answer}\r\n"));
    let error = driver.opened.pop().unwrap().unwrap_err();
    std::error::Error::source(&error).unwrap().to_string()
}

#[test]
fn a_server_that_cannot_say_what_is_on_its_disk_is_refused() {
    for (answer, says) in [
        ("-ERR unknown command 'WAITAOF', with args beginning with: '1' ", "has no WAITAOF"),
        ("-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.", "appendonly yes"),
    ] {
        let text = refusal(Confirmation::new(Confirm::AtLeast(0), SHORT).fsync(true), answer);
        assert!(text.contains(says), "{text}");
    }
}

#[test]
fn a_server_that_cannot_wait_for_replicas_is_refused() {
    let answer = "-ERR unknown command 'WAIT', with args beginning with: '0' '1' ";
    let text = refusal(Confirmation::new(Confirm::AtLeast(1), SHORT), answer);
    assert!(text.contains("has no WAIT"), "{text}");
}

#[test]
fn a_user_without_the_right_to_wait_is_told_at_once_and_a_server_that_loads_is_not_refused() {
    for (answer, is_refused) in [
        ("-NOPERM User app has no permissions to run the 'wait' command\r\n", true),
        ("-LOADING Redis is loading the dataset in memory\r\n", false),
    ] {
        let terms = Confirmation::new(Confirm::AtLeast(1), SHORT);
        let mut driver = Driver::with(ConnectOptions::default().resp3(false).confirmation(terms));
        driver.input(Input::Open);
        let id = driver.accept();
        driver.says(id, format!("+PONG\r\n{answer}-ERR unknown command 'HELLO'\r\n:0\r\n:1\r\n"));
        let kind = driver.opened.pop().unwrap().map_err(|error| error.kind);
        assert_eq!(kind, if is_refused { Err(Kind::PermissionDenied) } else { Ok(()) }, "{answer}");
    }
}

#[test]
fn the_connections_of_confirmed_calls_come_back_too() {
    let (mut driver, id) = driver(Confirm::AtLeast(1));
    driver.says(id, ":7\r\n:1\r\n");
    driver.hang_up(id);
    let again = driver.accept();
    assert_ne!(again, id);
    driver.says(again, "+PONG\r\n");
    assert_eq!(driver.replaced, [Scope::All]);
}

#[test]
fn a_call_with_a_policy_has_a_connection_of_its_own_and_the_others_do_not_wait_for_it() {
    let (mut driver, plain) = plain_driver(Confirmation::default());
    set_with(&mut driver, 1, Confirm::AtLeast(1));
    let confirmed = driver.accept();
    driver.says(confirmed, "+PONG\r\n");
    assert_eq!(driver.commands(confirmed)[1..], ["EVAL 1 k 1", "WAIT 1 1000"]);
    let call = driver.set(2, LONG);
    assert_eq!(driver.commands(plain), ["EVAL 1 k 2"]);
    driver.says(plain, ":2\r\n");
    assert_eq!(driver.outcomes(), [(call, Ok(Reply::Int(2)))]);
    driver.says(confirmed, ":1\r\n:0\r\n");
    assert_eq!(driver.outcomes(), [(1, Err((Kind::Unconfirmed, Applied::Unknown)))]);
}

#[test]
fn a_policy_of_no_replica_takes_a_call_out_of_the_groups_of_its_client() {
    let (mut driver, plain) = greeted(Confirmation::new(Confirm::AtLeast(1), Duration::from_millis(500)));
    set_with(&mut driver, 1, Confirm::None);
    assert_eq!(driver.commands(plain), ["EVAL 1 k 1"]);
    assert_eq!(driver.dialed, [plain]);
}

#[test]
fn a_group_waits_for_the_most_replicas_and_each_call_counts_by_its_own_policy() {
    let (mut driver, id) = driver(Confirm::AtLeast(1));
    driver.says(id, ":0\r\n");
    driver.taken(id);
    let ids = [Confirm::AtLeast(2), Confirm::AtLeast(3), Confirm::AtLeast(1)]
        .map(|replicas| set_with(&mut driver, 1, replicas));
    driver.says(id, ":1\r\n");
    assert_eq!(driver.outcomes(), [(1, Ok(Reply::Int(0)))]);
    assert_eq!(driver.commands(id), ["EVAL 3 k k k 111 1 1 1", "WAIT 3 500"]);
    driver.says(id, "*3\r\n:1\r\n:2\r\n:3\r\n:2\r\n");
    let unconfirmed = Err((Kind::Unconfirmed, Applied::Unknown));
    let expected = [(ids[0], Ok(Reply::Int(1))), (ids[1], unconfirmed), (ids[2], Ok(Reply::Int(3)))];
    assert_eq!(driver.outcomes(), expected);
}

#[test]
fn a_group_of_releases_does_not_count_the_replicas() {
    let (mut driver, id) = driver(Confirm::all(1));
    driver.says(id, counted(REPLICAS));
    driver.says(id, ":0\r\n:1\r\n");
    driver.taken(id);
    driver.pass(Duration::from_secs(2));
    driver.submit(delete(1), LONG);
    assert_eq!(driver.commands(id), ["EVAL 1 k 1"], "the count of before is too old");
    driver.says(id, ":1\r\n");
    driver.submit(delete(2), LONG);
    driver.set(1, LONG);
    driver.says(id, ":1\r\n");
    assert_eq!(driver.commands(id), ["EVALSHA 1 k 2", "INFO replication"]);
}

#[test]
fn a_missing_replica_is_told_once_for_policies_that_alternate() {
    let (mut driver, _) = plain_driver(Confirmation::default().on_missing(OnMissing::Warn));
    set_with(&mut driver, 0, Confirm::AtLeast(2));
    let id = driver.accept();
    driver.says(id, "+PONG\r\n");
    driver.says(id, counted(REPLICAS));
    driver.says(id, ":0\r\n:1\r\n");
    for replicas in [Confirm::AtLeast(1), Confirm::AtLeast(2), Confirm::AtLeast(1)] {
        set_with(&mut driver, 0, replicas);
        driver.says(id, ":0\r\n:1\r\n");
    }
    assert!(driver.outcomes().into_iter().all(|(_, outcome)| outcome.is_ok()));
    assert_eq!(driver.missing, [(1, 2)]);
}

#[test]
fn a_server_that_does_not_say_how_many_replicas_it_has_runs_no_call_that_counts_them() {
    let warns =
        Confirmation::new(Confirm::AtLeast(2), Duration::from_millis(500)).on_missing(OnMissing::Warn);
    let all = Confirmation::new(Confirm::all(0), Duration::from_millis(500));
    for (answer, kind) in [
        ("-NOPERM User u has no permissions to run the 'info' command\r\n", Kind::PermissionDenied),
        ("-BUSY Redis is busy running a script.\r\n", Kind::Busy),
        ("$4\r\nnope\r\n", Kind::Malformed),
    ] {
        for terms in [warns, all] {
            let (mut driver, id) = driver_with(terms);
            driver.submit(delete(1), LONG);
            assert_eq!(driver.commands(id)[1..], ["INFO replication"]);
            driver.says(id, answer);
            assert_eq!(driver.outcomes(), [(1, Err((kind, Applied::No)))]);
            assert_eq!(driver.missing, []);
            assert_eq!(driver.commands(id), ["EVAL 1 k 1"], "the release counts no replica");
            driver.says(id, ":1\r\n");
            driver.set(2, LONG);
            assert_eq!(driver.commands(id), ["INFO replication"], "the next call asks again");
        }
    }
}

#[test]
fn a_call_that_waited_long_gives_its_group_the_time_of_a_call() {
    let (mut driver, id) = driver(Confirm::AtLeast(1));
    driver.now = driver.now + SHORT / 2;
    let call = driver.set(1, SHORT);
    driver.now = driver.now + SHORT;
    driver.says(id, ":0\r\n:1\r\n");
    driver.outcomes();
    driver.input(Input::Tick);
    driver.now = driver.now + SHORT / 2;
    driver.input(Input::Tick);
    assert!(driver.streams.contains_key(&id), "the group before was answered a moment ago");
    driver.says(id, ":1\r\n:1\r\n");
    assert_eq!(driver.outcomes(), [(call, Ok(Reply::Int(1)))]);
}

#[test]
fn a_confirmed_call_after_the_close_is_refused() {
    let (mut driver, _) = plain_driver(Confirmation::default());
    driver.input(Input::Close);
    let call = set_with(&mut driver, 1, Confirm::AtLeast(1));
    assert_eq!(driver.outcomes(), [(call, Err((Kind::Closed, Applied::No)))]);
}
