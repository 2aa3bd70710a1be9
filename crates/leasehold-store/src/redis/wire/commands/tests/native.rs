//! Tests of native commands that stand in for a script, as a plain lock's calls have them.

use leasehold_proto::engine::Subject;
use leasehold_proto::recipe::CallContext;
use leasehold_proto::recipe::format::Format;
use leasehold_proto::recipe::plain::{PLAIN, values};
use leasehold_proto::{CallArgs, ClientId, Confirm, Lease, Name, WireOwner};

use super::*;
use crate::confirm::Confirmation;
use crate::redis::wire::CallId;

/// The first attempt of an acquire as each of its native commands, and as the script.
const ACQUIRES: [&str; 3] = ["SET k V0 NX GET PX 9000", "SET k V0 NX PX 9000", "EVAL 1 k V0 9000"];
/// A release without known waiters as each of its native commands, and as the script.
const RELEASES: [&str; 3] =
    ["DELIFEQ k V0", "DELEX k IFEQ V0", "EVAL 2 k k V0 V1 PUBLISH leasehold_plain:{k} 0 "];
/// The refusals that prove that nothing has run.
const REFUSALS: [&str; 3] = [
    "-ERR unknown command 'X', with args beginning with: 'k'\r\n",
    "-ERR syntax error\r\n",
    "-NOPERM this user has no permissions to run the 'x' command\r\n",
];

fn wire_owner() -> WireOwner {
    WireOwner::new(ClientId::from_random([7; 16]), 1)
}

fn subject() -> Subject {
    Subject::new(&Name::new("k").unwrap(), &PLAIN)
}

fn acquire() -> Call {
    let lease = Lease::new(Duration::from_secs(9)).unwrap();
    (PLAIN.acquire)(&CallArgs::new(&subject(), wire_owner(), lease))
}

fn release() -> Call {
    let context = CallContext { quiet: true, ..CallContext::default() };
    let subject = subject();
    let args = CallArgs::new(&subject, wire_owner(), Lease::new(Duration::from_secs(9)).unwrap());
    (PLAIN.release)(&CallArgs { context, ..args.count(0) })
}

/// Takes the commands off a stream, with the two forms of the value as `V0` and `V1`.
fn commands(driver: &mut Driver, id: ConnId) -> Vec<String> {
    let [plain, marked] =
        values(&Format::default(), wire_owner()).map(|value| String::from_utf8(value).unwrap());
    let shown = |command: String| command.replace(&plain, "V0").replace(&marked, "V1");
    driver.commands(id).into_iter().map(shown).collect()
}

#[test]
fn a_refused_command_is_sent_as_the_next_one_and_then_as_the_script() {
    for refusal in REFUSALS {
        for (call, forms) in [(acquire as fn() -> Call, ACQUIRES), (release, RELEASES)] {
            let (mut driver, id) = Driver::live(ROWS);
            let first = driver.submit(call(), LONG);
            for form in &forms[..2] {
                assert_eq!(commands(&mut driver, id), [*form]);
                driver.says(id, refusal);
                assert_eq!(driver.outcomes(), [], "nothing has run");
            }
            assert_eq!(commands(&mut driver, id), [forms[2]]);
            driver.says(id, "$-1\r\n");
            assert_eq!(driver.outcomes(), [(first, Ok(Reply::Nil))]);
            // The server is not asked again.
            let next = driver.submit(call(), LONG);
            assert_eq!(commands(&mut driver, id), [forms[2].replace("EVAL", "EVALSHA")]);
            driver.says(id, "$-1\r\n");
            assert_eq!(driver.outcomes(), [(next, Ok(Reply::Nil))]);
        }
    }
}

#[test]
fn a_refusal_of_one_command_is_none_of_another() {
    let (mut driver, id) = Driver::live(ROWS);
    driver.submit(release(), LONG);
    driver.says(id, REFUSALS[0]);
    driver.says(id, ":1\r\n");
    commands(&mut driver, id);
    driver.submit(acquire(), LONG);
    assert_eq!(commands(&mut driver, id), [ACQUIRES[0]]);
    driver.says(id, "$-1\r\n");
    driver.submit(release(), LONG);
    assert_eq!(commands(&mut driver, id), [RELEASES[1]]);
}

#[test]
fn commands_that_were_in_flight_at_a_refusal_follow_it() {
    let mut driver = Driver::with(ConnectOptions::default().at_once(8));
    let id = driver.open();
    (0..3).for_each(|_| _ = driver.submit(release(), LONG));
    assert_eq!(commands(&mut driver, id), [RELEASES[0]; 3]);
    driver.says(id, REFUSALS[0].repeat(3));
    assert_eq!(commands(&mut driver, id), [RELEASES[1]; 3]);
    driver.says(id, ":1\r\n:1\r\n:1\r\n");
    assert_eq!(driver.outcomes(), [1, 2, 3].map(|call| (call, Ok(Reply::Int(0)))));
}

#[test]
fn a_new_connection_asks_again() {
    let (mut driver, id) = Driver::live(ROWS);
    driver.submit(release(), LONG);
    driver.says(id, REFUSALS[0]);
    driver.says(id, ":1\r\n");
    driver.outcomes();
    driver.hang_up(id);
    driver.submit(release(), LONG);
    driver.pass(Duration::from_millis(20));
    let id = driver.accept();
    driver.says(id, "+PONG\r\n");
    assert_eq!(commands(&mut driver, id).last().map(String::as_str), Some(RELEASES[0]));
}

#[test]
fn the_reply_of_a_command_is_that_of_the_script() {
    let (mut driver, id) = Driver::live(ROWS);
    for reply in ["$-1\r\n", "$7\r\nanother\r\n", ":1\r\n"] {
        driver.submit(if reply == ":1\r\n" { release() } else { acquire() }, LONG);
        driver.says(id, reply);
    }
    let expected = [(1, Ok(Reply::Nil)), (2, Ok(Reply::Text(b"another".to_vec()))), (3, Ok(Reply::Int(0)))];
    assert_eq!(driver.outcomes(), expected);
    // Without GET, nil says that another has the lock, and not who.
    driver.submit(acquire(), LONG);
    driver.says(id, REFUSALS[1]);
    driver.says(id, "$-1\r\n");
    driver.submit(acquire(), LONG);
    driver.says(id, "+OK\r\n");
    assert_eq!(driver.outcomes(), [(4, Ok(Reply::Text(Vec::new()))), (5, Ok(Reply::Nil))]);
}

#[test]
fn a_deletion_of_nothing_leads_to_the_script() {
    let (mut driver, id) = Driver::live(ROWS);
    let marked = driver.submit(release(), LONG);
    assert_eq!(commands(&mut driver, id), [RELEASES[0]]);
    driver.says(id, ":0\r\n");
    assert_eq!(commands(&mut driver, id), [RELEASES[2]]);
    assert_eq!(driver.outcomes(), []);
    driver.says(id, ":2\r\n");
    assert_eq!(driver.outcomes(), [(marked, Ok(Reply::Int(2)))]);
    // The next release is native again.
    driver.submit(release(), LONG);
    assert_eq!(commands(&mut driver, id), [RELEASES[0]]);
}

#[test]
fn an_error_that_is_no_refusal_is_the_outcome() {
    let (mut driver, id) = Driver::live(ROWS);
    for (call, error, kind, applied) in [
        (acquire(), "-WRONGTYPE Operation against a key", Kind::WrongType, Unknown),
        (release(), "-WRONGTYPE Operation against a key", Kind::WrongType, Unknown),
        (acquire(), "-OOM command not allowed", Kind::OutOfMemory, No),
        (acquire(), "-LOADING Redis is loading", Kind::Loading, No),
        // The connection to a read-only server is not used again.
        (release(), "-READONLY You can't write against a read only replica.", Kind::ReadOnly, No),
    ] {
        let submitted = driver.submit(call, LONG);
        driver.says(id, format!("{error}\r\n"));
        assert_eq!(driver.outcomes(), [(submitted, failed(kind, applied))], "{error}");
    }
}

#[test]
fn native_calls_share_no_command_and_scripts_in_their_place_do() {
    let (mut driver, id) = Driver::live(ROWS);
    driver.set(0, LONG);
    for call in [acquire(), release(), acquire(), release()] {
        driver.submit(call, LONG);
    }
    driver.input(Input::Flush);
    let native = [ACQUIRES[0], RELEASES[0], ACQUIRES[0], RELEASES[0]];
    assert_eq!(commands(&mut driver, id)[1..], native);
    driver.says(id, ":0\r\n");
    driver.says(id, [REFUSALS[0], REFUSALS[0]].concat().repeat(2));
    driver.says(id, [REFUSALS[1], REFUSALS[0]].concat().repeat(2));
    driver.says(id, "$-1\r\n:1\r\n$-1\r\n:1\r\n");
    assert_eq!(driver.outcomes().len(), 5);
    commands(&mut driver, id);
    driver.set(1, LONG);
    for call in [acquire(), acquire(), release()] {
        driver.submit(call, LONG);
    }
    driver.input(Input::Flush);
    let sent = commands(&mut driver, id);
    assert_eq!(sent.len(), 2, "{sent:?}");
}

#[test]
fn an_abandoned_call_follows_its_refusal_and_goes_to_no_other() {
    let (mut driver, id) = Driver::live(ROWS);
    let left = driver.submit(release(), LONG);
    driver.input(Input::Abandon(CallId(left)));
    driver.says(id, REFUSALS[0]);
    assert_eq!(commands(&mut driver, id), [RELEASES[0], RELEASES[1]], "it may be what frees the lock");
    driver.says(id, ":0\r\n");
    assert_eq!(commands(&mut driver, id), [RELEASES[2]]);
    let next = driver.submit(acquire(), LONG);
    driver.says(id, ":1\r\n");
    driver.says(id, "$-1\r\n");
    assert_eq!(driver.outcomes(), [(next, Ok(Reply::Nil))]);
}

#[test]
fn a_connection_that_ends_between_the_command_and_the_script_leaves_the_call_unknown() {
    let (mut driver, id) = Driver::live(ROWS);
    let submitted = driver.submit(release(), LONG);
    driver.says(id, ":0\r\n");
    driver.hang_up(id);
    assert_eq!(driver.outcomes(), [(submitted, failed(Kind::ConnectionLost, Unknown))]);
}

#[test]
fn a_group_waits_again_behind_a_script_that_followed() {
    let terms = Confirmation::new(Confirm::AtLeast(1), Duration::from_millis(500));
    let mut driver = Driver::with(ConnectOptions::default().resp3(false).confirmation(terms));
    driver.input(Input::Open);
    let plain = driver.accept();
    driver.says(plain, "+PONG\r\n:0\r\n-ERR unknown command 'HELLO'\r\n:0\r\n:1\r\n");
    let submitted = driver.submit(subject().confirmed(acquire(), None), LONG);
    let id = driver.accept();
    driver.says(id, "+PONG\r\n");
    assert_eq!(commands(&mut driver, id)[1..], [ACQUIRES[0], "WAIT 1 500"]);
    driver.says(id, REFUSALS[1]);
    assert_eq!(commands(&mut driver, id), [ACQUIRES[1]]);
    driver.says(id, ":1\r\n");
    assert_eq!(driver.outcomes(), [], "that answer is not about the command that followed");
    driver.says(id, "+OK\r\n");
    assert_eq!(commands(&mut driver, id), ["WAIT 1 500"]);
    assert_eq!(driver.outcomes(), []);
    driver.says(id, ":1\r\n");
    assert_eq!(driver.outcomes(), [(submitted, Ok(Reply::Nil))]);
}

/// The attempt of a waiter after a holder that sends no message.
fn watch() -> Call {
    let subject = subject();
    let context = CallContext { marks: true, polls: true, ..CallContext::default() };
    let args = CallArgs::new(&subject, wire_owner(), Lease::new(Duration::from_secs(9)).unwrap());
    (PLAIN.acquire)(&CallArgs { context, ..args }).woken_by(&subject, wire_owner())
}

/// Returns a driver with a connection that speaks RESP3.
fn resp3() -> (Driver, ConnId) {
    let mut driver = Driver::new(ROWS);
    driver.input(Input::Open);
    let id = driver.accept();
    let hello = "%2\r\n$5\r\nproto\r\n:3\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n";
    driver.says(id, format!("+PONG\r\n{hello}:0\r\n:1\r\n"));
    assert_eq!(driver.opened, [Ok(())]);
    driver.taken(id);
    (driver, id)
}

const WATCH: &str = "EVAL 2 k k V0 V1 9000 1 1 0 1";
const POLLED: &str = "*1\r\n:5\r\n";
const INVALIDATE: &str = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";

#[test]
fn each_call_that_watches_its_key_is_behind_a_request_to_tell() {
    let (mut driver, id) = resp3();
    driver.submit(watch(), LONG);
    let first = ["CLIENT TRACKING ON OPTIN NOLOOP", "CLIENT CACHING YES", WATCH];
    assert_eq!(commands(&mut driver, id), first);
    driver.says(id, format!("+OK\r\n+OK\r\n{POLLED}"));
    driver.submit(watch(), LONG);
    let again = WATCH.replace("EVAL", "EVALSHA");
    assert_eq!(commands(&mut driver, id), ["CLIENT CACHING YES", &*again]);
    // The command that was refused has read no key.
    driver.says(id, "+OK\r\n-NOSCRIPT No matching script.\r\n");
    assert_eq!(commands(&mut driver, id), ["CLIENT CACHING YES", WATCH]);
    driver.says(id, format!("+OK\r\n{POLLED}"));
    assert_eq!(driver.outcomes().len(), 2);
    driver.hang_up(id);
    driver.pass(Duration::from_millis(20));
    driver.submit(watch(), LONG);
    driver.pass(Duration::from_millis(200));
    let id = driver.accept();
    driver.says(id, "+PONG\r\n%1\r\n$5\r\nproto\r\n:3\r\n");
    let sent = commands(&mut driver, id);
    assert_eq!(sent[sent.len() - 3..], first, "another connection begins anew");
}

#[test]
fn a_changed_key_wakes_its_waiters_alone_and_together_with_an_answer() {
    for is_alone in [true, false] {
        let (mut driver, id) = resp3();
        driver.subscribe(1, "leasehold_plain:{k}");
        driver.submit(watch(), LONG);
        let answer = format!("+OK\r\n+OK\r\n{POLLED}");
        if is_alone {
            driver.says(id, answer);
            driver.says(id, INVALIDATE);
        } else {
            driver.says(id, format!("{answer}{INVALIDATE}"));
        }
        assert_eq!(driver.heard.len(), 1, "alone: {is_alone}");
    }
}
