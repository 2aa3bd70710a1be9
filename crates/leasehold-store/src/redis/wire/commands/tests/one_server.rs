//! Tests of the proof that one server is behind a connection, and of calls with keys of several slots.

use std::time::Duration;

use leasehold_proto::{Name, Script, Verb};

use super::*;

static BOTH: Script = Script::new(Verb::Acquire, "-- KEYS[1] lock hash any\nreturn #KEYS");
static HELPED: Script =
    Script::new(Verb::Acquire, "-- KEYS[1] lock hash any\n-- KEYS[2] queue list any\nreturn #KEYS");
const ID: &str = "$3\r\nabc\r\n";

fn both(one: &str, other: &str) -> Call {
    Call::of(&BOTH).key("lock", one).more_keys([&Name::raw_redisson(other).unwrap()])
}

/// Submits calls on these names behind a call in flight, whose reply comes then. Returns what is written behind it: the
/// number of questions, and the commands.
fn together(driver: &mut Driver, id: ConnId, keys: &[&str]) -> (usize, Vec<String>) {
    driver.set_at("before", 0);
    keys.iter().for_each(|key| _ = driver.set_at(key, 1));
    driver.taken(id);
    driver.says(id, ":0\r\n");
    written(driver, id)
}

fn written(driver: &mut Driver, id: ConnId) -> (usize, Vec<String>) {
    let (questions, commands): (Vec<_>, Vec<_>) =
        driver.commands(id).into_iter().partition(|command| command.contains(":leasehold:"));
    (questions.len(), commands)
}

/// Returns a driver whose connection has asked who is behind it, with two calls in flight.
fn asked() -> (Driver, ConnId) {
    let (mut driver, id) = Driver::live(ROWS);
    let (questions, commands) = together(&mut driver, id, &["a", "b"]);
    assert_eq!((questions, commands), (1, vec!["EVALSHA 1 a 1".to_owned(), "EVALSHA 1 b 1".to_owned()]));
    driver.outcomes();
    (driver, id)
}

/// Returns a driver whose connection has proved that one server is behind it.
fn proved() -> (Driver, ConnId) {
    let (mut driver, id) = asked();
    driver.says(id, ID);
    let (questions, _) = written(&mut driver, id);
    assert_eq!(questions, 32, "each name alone");
    driver.says(id, ":1\r\n:1\r\n".to_owned() + &ID.repeat(questions));
    assert_eq!(driver.outcomes().len(), 2);
    (driver, id)
}

#[test]
fn names_of_one_server_share_a_command_once_it_is_proved() {
    let (mut driver, id) = proved();
    let batch = "EVAL 3 a b c 111 1 0 1 1 1".replace("0 1 1 1", "1 1");
    assert_eq!(together(&mut driver, id, &["a", "b", "c"]), (0, vec![batch]));
}

#[test]
fn a_lone_call_and_calls_on_one_name_ask_nothing() {
    let (mut driver, id) = Driver::live(ROWS);
    for key in ["a", "b"] {
        driver.set_at(key, 0);
        driver.says(id, ":0\r\n");
    }
    assert_eq!(written(&mut driver, id).0, 0);
    assert_eq!(together(&mut driver, id, &["a", "a"]), (0, vec!["EVAL 2 a a 11 1 1 1".to_owned()]));
}

#[test]
fn a_server_that_is_another_for_one_name_gets_no_shared_command() {
    let (mut driver, id) = asked();
    driver.says(id, ID);
    driver.says(id, ":1\r\n:1\r\n".to_owned() + &ID.repeat(20) + "$3\r\nxyz\r\n" + &ID.repeat(11));
    written(&mut driver, id);
    for keys in [["a", "b", "c"], ["{a}1", "{a}2", "{a}3"]] {
        let (questions, commands) = together(&mut driver, id, &keys);
        assert_eq!((questions, commands.len()), (0, 3), "{commands:?}");
        driver.says(id, ":1\r\n".repeat(3));
    }
    driver.replies.clear();
    driver.submit(both("{a}1", "{a}2"), LONG);
    let error = driver.replies.pop().unwrap().1.unwrap_err();
    assert!(error.reason().to_string().contains("a proxy may route the keys"), "{}", error.reason());
    let helper = Call::of(&HELPED).key("lock", "a").key("queue", "queue:{a}");
    driver.submit(helper, LONG);
    assert_eq!(
        written(&mut driver, id).1,
        ["EVAL 2 a queue:{a}"],
        "the helper keys of a name are where it is"
    );
}

#[test]
fn a_server_that_does_not_prove_itself_gets_neither_shared_commands_nor_locks_of_several_slots() {
    for (answer, says) in [
        ("-CROSSSLOT Keys in request don't hash to the same slot\r\n", "in two slots of the cluster"),
        ("-NOPERM this user has no permissions to access one of the keys\r\n", "let the user run `INFO`"),
        ("-ERR This Redis command is not allowed from script\r\n", "let the user run `INFO`"),
        ("$-1\r\n", "let the user run `INFO`"),
    ] {
        let (mut driver, id) = asked();
        driver.says(id, answer.to_owned() + ":1\r\n:1\r\n");
        assert_eq!(driver.outcomes().len(), 2);
        let (questions, commands) = together(&mut driver, id, &["a", "b"]);
        assert_eq!((questions, commands.len()), (0, 2), "{answer} {commands:?}");
        driver.says(id, ":1\r\n:1\r\n");
        driver.outcomes();
        driver.submit(both("a", "b"), LONG);
        let error = driver.replies.pop().unwrap().1.unwrap_err();
        assert_eq!((error.kind, error.applied), (Kind::CrossSlot, No), "{answer}");
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains(says), "{cause}");
        driver.submit(both("{a}1", "{a}2"), LONG);
        let runs = answer.starts_with("-CROSSSLOT").then(|| "EVAL 2 {a}1 {a}2".to_owned());
        assert_eq!(written(&mut driver, id).1, runs.into_iter().collect::<Vec<_>>(), "{answer}");
    }
}

#[test]
fn a_call_with_keys_of_several_slots_waits_for_the_proof() {
    let (mut driver, id) = Driver::live(ROWS);
    let call = driver.submit(both("a", "b"), LONG);
    assert_eq!(written(&mut driver, id), (1, vec![]));
    driver.says(id, ID);
    driver.says(id, ID.repeat(31));
    assert_eq!(written(&mut driver, id), (32, vec![]));
    driver.says(id, ID);
    assert_eq!(written(&mut driver, id), (0, vec!["EVAL 2 a b".to_owned()]));
    driver.says(id, ":2\r\n");
    assert_eq!(driver.outcomes(), [(call, Ok(Reply::Int(2)))]);
}

#[test]
fn a_server_that_cannot_answer_now_is_asked_again_by_the_next_call() {
    let (mut driver, id) = Driver::live(ROWS);
    let call = driver.submit(both("a", "b"), LONG);
    driver.says(id, "-LOADING Redis is loading the dataset in memory\r\n");
    assert_eq!(driver.outcomes(), [(call, failed(Kind::Loading, No))]);
    driver.taken(id);
    driver.submit(both("a", "b"), LONG);
    driver.says(id, ID);
    driver.says(id, ID.repeat(32));
    assert_eq!(driver.commands(id).last().unwrap(), "EVAL 2 a b");
}

#[test]
fn a_server_that_could_not_answer_fails_no_later_call() {
    let (mut driver, id) = Driver::live(ROWS);
    let early = driver.submit(both("a", "b"), LONG);
    driver.says(id, "-LOADING Redis is loading the dataset in memory\r\n");
    assert_eq!(driver.outcomes(), [(early, failed(Kind::Loading, No))]);
    let later = driver.submit(both("a", "b"), LONG);
    assert_eq!(driver.outcomes(), [], "it waits for an answer of its own");
    driver.says(id, ID);
    driver.says(id, ID.repeat(32));
    driver.says(id, ":2\r\n");
    assert_eq!(driver.outcomes(), [(later, Ok(Reply::Int(2)))]);
}

#[test]
fn late_answers_to_a_question_say_nothing_of_the_next_one() {
    let mut driver = Driver::with(ConnectOptions::default());
    let id = driver.open();
    let early = driver.submit(both("a", "b"), LONG);
    driver.says(id, ID);
    driver.says(id, "-LOADING Redis is loading the dataset in memory\r\n");
    assert_eq!(driver.outcomes(), [(early, failed(Kind::Loading, No))]);
    // So few are missing that the next question goes out before they come.
    driver.says(id, ID.repeat(25));
    driver.taken(id);
    let later = driver.submit(both("a", "b"), LONG);
    assert_eq!(written(&mut driver, id).0, 1, "it asks at once");
    driver.says(id, ID.repeat(6));
    driver.says(id, ID);
    driver.says(id, ID.repeat(31) + "$3\r\nxyz\r\n");
    let [(call, Err(error))] = &driver.outcomes()[..] else { panic!("it must fail") };
    assert_eq!((*call, error.0), (later, Kind::CrossSlot));
}

#[test]
fn each_round_trip_of_the_question_has_the_whole_timeout() {
    let (mut driver, id) = Driver::live(ROWS);
    driver.submit(both("a", "b"), LONG);
    driver.pass(Duration::from_secs(2));
    driver.says(id, ID);
    driver.pass(Duration::from_secs(2));
    driver.says(id, ID.repeat(32));
    assert_eq!(driver.commands(id).last().unwrap(), "EVAL 2 a b", "the connection was not reset");
}

#[test]
fn the_next_connection_proves_itself() {
    let (mut driver, id) = proved();
    driver.hang_up(id);
    let id = driver.accept();
    driver.says(id, "+PONG\r\n");
    let (questions, commands) = together(&mut driver, id, &["a", "b"]);
    assert_eq!((questions, commands.len()), (1, 2), "{commands:?}");
}

#[test]
fn the_calls_of_a_batch_that_is_refused_for_its_slots_go_out_alone() {
    for (refusal, questions, later) in [
        ("-CROSSSLOT Keys in request don't hash to the same slot\r\n", 0, 2),
        ("-TRYAGAIN Multiple keys request during rehashing of slot\r\n", 0, 1),
    ] {
        let (mut driver, id) = proved();
        assert_eq!(together(&mut driver, id, &["a", "b"]).1.len(), 1);
        driver.outcomes();
        driver.says(id, refusal);
        assert_eq!(driver.outcomes(), [], "no row has run");
        assert_eq!(
            written(&mut driver, id),
            (0, vec!["EVALSHA 1 a 1".to_owned(), "EVALSHA 1 b 1".to_owned()])
        );
        driver.says(id, ":1\r\n:2\r\n");
        let replies: Vec<_> = driver.outcomes().into_iter().map(|(_, outcome)| outcome).collect();
        assert_eq!(replies, [Ok(Reply::Int(1)), Ok(Reply::Int(2))]);
        let next = together(&mut driver, id, &["a", "b"]);
        assert_eq!((next.0, next.1.len()), (questions, later), "{refusal} {:?}", next.1);
    }
}

#[test]
fn a_call_of_a_refused_batch_keeps_its_own_time() {
    let (mut driver, id) = proved();
    driver.set_at("before", 0);
    let short = driver.submit(Call::of(&SET).key("key", "a").arg("value", 1), SHORT);
    let long = driver.set_at("b", 1);
    driver.says(id, ":0\r\n");
    driver.outcomes();
    driver.pass(SHORT - MS);
    driver.says(id, "-TRYAGAIN Multiple keys request during rehashing of slot\r\n");
    driver.pass(SHORT * 2);
    let outcomes = driver.outcomes();
    assert_eq!(outcomes[0], (short, failed(Kind::Timeout, Unknown)), "it was sent again");
    assert_eq!(outcomes.last().unwrap().0, long);
}

#[test]
fn a_call_on_several_names_joins_no_call_on_its_first_name() {
    let (mut driver, id) = asked();
    driver.says(id, ID);
    driver.says(id, ":1\r\n:1\r\n".to_owned() + &ID.repeat(20) + "$3\r\nxyz\r\n" + &ID.repeat(11));
    driver.outcomes();
    driver.set_at("before", 0);
    driver.set_at("{a}1", 1);
    driver.submit(both("{a}1", "{a}2"), LONG);
    driver.taken(id);
    driver.says(id, ":0\r\n");
    assert_eq!(written(&mut driver, id).1, ["EVALSHA 1 {a}1 1"], "the lock of two names is refused");
}

#[test]
fn a_call_that_waits_for_the_proof_asks_for_no_flush() {
    // With room for further commands, as a client has.
    let mut driver = Driver::with(ConnectOptions::default());
    let id = driver.open();
    driver.submit(both("a", "b"), LONG);
    assert_eq!(written(&mut driver, id), (1, vec![]));
    assert!(!driver.wire.wants_flush(), "a driver that flushes again and again would not read the answer");
    driver.set_at("c", 1);
    assert!(!driver.wire.wants_flush(), "the first call keeps the order");
    driver.says(id, "-NOPERM this user has no permissions to access one of the keys\r\n");
    assert_eq!(written(&mut driver, id), (0, vec!["EVAL 1 c 1".to_owned()]), "the answer flushes");
}
