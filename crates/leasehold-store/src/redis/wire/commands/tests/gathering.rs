//! Tests of calls that gather, and of those that share a command.

use super::*;

#[test]
fn calls_behind_others_gather_until_the_next_reply() {
    let (mut driver, id) = Driver::live(1);
    driver.set(1, LONG);
    for value in 2..=4 {
        driver.set(value, LONG);
    }
    assert_eq!(driver.commands(id), ["EVAL 1 k 1"]);
    assert!(!driver.wire.wants_flush(), "a reply is near");
    driver.input(Input::Flush);
    assert_eq!(driver.commands(id), ["EVALSHA 1 k 2", "EVALSHA 1 k 3", "EVALSHA 1 k 4"]);
    driver.set(5, LONG);
    driver.says(id, ":1\r\n");
    assert_eq!(driver.commands(id), ["EVALSHA 1 k 5"]);
    driver.says(id, ":2\r\n:3\r\n:4\r\n:5\r\n");
    assert_eq!(driver.outcomes(), (1..=5).map(|id| (id, Ok(Reply::Int(id as i64)))).collect::<Vec<_>>());
}

#[test]
fn calls_behind_few_others_are_written_at_once() {
    let options = ConnectOptions::default().at_once(3);
    let mut driver = Driver::with(options);
    let id = driver.open();
    for value in 1..=5 {
        driver.set(value, LONG);
    }
    assert_eq!(driver.commands(id), ["EVAL 1 k 1", "EVALSHA 1 k 2", "EVALSHA 1 k 3"]);
    driver.says(id, ":1\r\n");
    assert_eq!(driver.commands(id), ["EVAL 2 k k 11 1 0 4 5"]);
    driver.says(id, ":2\r\n:3\r\n*2\r\n:4\r\n:5\r\n");
    assert_eq!(driver.outcomes(), (1..=5).map(|id| (id, Ok(Reply::Int(id as i64)))).collect::<Vec<_>>());
}

#[test]
fn calls_behind_few_commands_are_written_and_behind_four_they_gather() {
    let mut driver = Driver::with(ConnectOptions::default().at_once(5));
    let id = driver.open();
    for value in 1..=10 {
        driver.set(value, LONG);
    }
    driver.taken(id);
    driver.says(id, ":1\r\n:2\r\n:3\r\n:4\r\n:5\r\n");
    assert_eq!(driver.commands(id), ["EVAL 5 k k k k k 11111 1 0 6 7 8 9 10"]);
    for value in 11..=15 {
        driver.set(value, LONG);
    }
    let written = ["EVALSHA 1 k 11", "EVALSHA 1 k 12", "EVALSHA 1 k 13"];
    assert_eq!(driver.commands(id), written, "the server has work while the client reads");
    driver.says(id, "*5\r\n:6\r\n:7\r\n:8\r\n:9\r\n:10\r\n");
    assert_eq!(driver.commands(id), ["EVALSHA 2 k k 11 1 0 14 15"]);
    driver.says(id, ":11\r\n:12\r\n:13\r\n*2\r\n:14\r\n:15\r\n");
    assert_eq!(driver.outcomes(), (1..=15).map(|id| (id, Ok(Reply::Int(id as i64)))).collect::<Vec<_>>());
}

#[test]
fn neighbors_of_two_scripts_travel_as_one_batch_with_a_reply_each() {
    let (mut driver, id) = Driver::live(ROWS);
    driver.set(0, LONG);
    for call in [set(1), set(2), delete(3), set(4), set(5), set(6)] {
        driver.submit(call, LONG);
    }
    driver.input(Input::Flush);
    assert_eq!(driver.commands(id), ["EVAL 1 k 0", "EVAL 6 k k k k k k 221222 1 1 1 0 3 1 2 4 5 6"]);
    driver.says(id, ":0\r\n*6\r\n:1\r\n$-1\r\n:3\r\n:4\r\n-WRONGTYPE no\r\n:6\r\n");
    let expected = [
        (1, Ok(Reply::Int(0))),
        (2, Ok(Reply::Int(1))),
        (3, Ok(Reply::Nil)),
        (4, Ok(Reply::Int(3))),
        (5, Ok(Reply::Int(4))),
        (6, failed(Kind::WrongType, Unknown)),
        (7, Ok(Reply::Int(6))),
    ];
    assert_eq!(driver.outcomes(), expected);
}

#[test]
fn neighbors_of_two_slots_do_not_share_a_command_in_a_cluster() {
    let options = ConnectOptions::default().at_once(1).sharded_pubsub(ShardedPubsub::Off);
    let mut driver = Driver::with(options);
    driver.input(Input::Open);
    let id = driver.accept();
    driver.says(id, "+PONG\r\n*2\r\n$4\r\nmode\r\n$7\r\ncluster\r\n:0\r\n:1\r\n");
    driver.says(id, "$14\r\ncluster_size:1\r\n");
    assert_eq!(driver.opened, [Ok(())]);
    driver.taken(id);
    driver.set(0, LONG);
    for key in ["{a}1", "{a}2", "{b}1", "{b}2", "{a}3"] {
        driver.submit(Call::of(&SET).key("key", key).arg("value", "v"), LONG);
    }
    driver.says(id, ":0\r\n");
    let sent =
        ["EVAL 1 k 0", "EVAL 2 {a}1 {a}2 11 1 1 v", "EVALSHA 2 {b}1 {b}2 11 1 1 v", "EVALSHA 1 {a}3 v"];
    assert_eq!(driver.commands(id), sent);
}

#[test]
fn the_calls_of_one_submission_travel_together() {
    let (mut driver, id) = Driver::live(ROWS);
    driver.input(Input::Gather);
    for value in 0..3 {
        driver.set(value, LONG);
    }
    assert_eq!(driver.commands(id), [""; 0], "they wait for the last one");
    driver.input(Input::Gathered);
    assert_eq!(driver.commands(id).len(), 1, "one command for all");
    driver.says(id, "*3\r\n:0\r\n:1\r\n:2\r\n");
    assert_eq!(driver.outcomes().len(), 3);
    driver.set(3, LONG);
    assert_eq!(driver.commands(id).len(), 1, "a call alone does not wait");
}

#[test]
fn calls_that_are_gathered_connect_and_do_not_overtake_the_queue() {
    let mut driver = Driver::new(ROWS);
    driver.input(Input::Gather);
    for value in 0..3 {
        driver.set(value, LONG);
    }
    assert_eq!(driver.dials().len(), 0);
    driver.input(Input::Gathered);
    assert_eq!(driver.dials().len(), 1);
}
