//! Tests of a cluster: `a` has the lower slots, `b` the upper ones. `low` and `high` are keys in these.

mod maps;
mod native;

use std::time::Duration;

use leasehold_proto::{Applied, Call, Reply, Scope, StoreErrorKind as Kind};

use super::{array, at, driver};
use crate::redis::connect::ConnectOptions;
use crate::redis::wire::harness::{Driver, LONG, SET, SHORT};
use crate::redis::wire::{ConnId, Input};
use crate::sharding::ShardedPubsub;
use crate::store::Heard;
use crate::url::{Address, ServerUrl, Servers};

/// The answers of a node to the first commands up to HELLO, which tells that it is a node, and those that follow.
const GREETING: &str = "+PONG\r\n*2\r\n$4\r\nmode\r\n$7\r\ncluster\r\n:0\r\n:1\r\n";
const SHARDED: &str = "-MOVED 1 a:1\r\n";
/// A key in slot 5,061 and one in slot 15,495.
const LOW: &str = "{bar}";
const HIGH: &str = "{a}";

fn cluster() -> Driver {
    driver(Servers::Cluster { seeds: vec![at("a"), at("b")] })
}

fn set(key: &str, value: u64) -> Call {
    Call::of(&SET).key("key", key).arg("value", value)
}

/// Returns the answer to CLUSTER SLOTS of these ranges.
fn map(ranges: &[(u16, u16, &str)]) -> String {
    let range = |(first, last, host): &(u16, u16, &str)| {
        format!("*3\r\n:{first}\r\n:{last}\r\n*2\r\n${}\r\n{host}\r\n:1\r\n", host.len())
    };
    format!("*{}\r\n{}", ranges.len(), ranges.iter().map(range).collect::<String>())
}

const HALVES: [(u16, u16, &str); 2] = [(0, 8_191, "a"), (8_192, 16_383, "b")];

/// Lets a node answer a query by this map.
fn draws(driver: &mut Driver, host: &str, ranges: &[(u16, u16, &str)], epoch: u32) {
    let id = accepts(driver, host);
    let asked = driver.commands(id);
    assert_eq!(asked[asked.len() - 2..], ["CLUSTER SHARDS", "CLUSTER INFO"], "{asked:?}");
    let info = format!("cluster_current_epoch:{epoch}\r\n");
    driver.says(id, map(ranges) + &format!("${}\r\n{info}\r\n", info.len()));
    assert!(driver.reset.contains(&id), "the query is over");
}

/// Lets the node that is asked for the map answer by this one.
fn redraws(driver: &mut Driver, ranges: &[(u16, u16, &str)], epoch: u32) {
    let asked = driver.dials()[0].to_owned();
    draws(driver, &asked, ranges, epoch);
}

/// Lets a node refuse a call of the slots of [`LOW`], when a map may be asked for.
fn refuses(driver: &mut Driver, id: ConnId, text: &str, kind: Kind) {
    driver.pass(Duration::from_secs(2));
    let refused = driver.submit(set(LOW, 1), LONG);
    driver.says(id, text);
    assert_eq!(driver.outcomes(), [(refused, Err((kind, Applied::No)))]);
}

/// Lets a node greet, and returns its connection. Its first connection says what it is.
fn accepts(driver: &mut Driver, host: &str) -> ConnId {
    let id = driver.accept_at(host);
    if driver.commands(id).contains(&"HELLO".to_owned()) {
        driver.says(id, GREETING);
        if driver.unread(id).iter().any(|command| command.starts_with("SPUBLISH")) {
            driver.taken(id);
            driver.says(id, SHARDED);
        }
    } else {
        driver.says(id, "+PONG\r\n");
    }
    id
}

fn greets(driver: &mut Driver, host: &str) -> ConnId {
    let id = accepts(driver, host);
    driver.taken(id);
    id
}

/// Returns a cluster with connections to both masters.
fn live() -> (Driver, ConnId, ConnId) {
    let mut driver = cluster();
    driver.input(Input::Open);
    draws(&mut driver, "a", &HALVES, 1);
    let a = greets(&mut driver, "a");
    assert_eq!(driver.opened, [Ok(())]);
    driver.submit(set(HIGH, 0), LONG);
    let b = greets(&mut driver, "b");
    driver.says(b, ":0\r\n");
    driver.outcomes();
    (driver, a, b)
}

fn ran(id: u64) -> (u64, Result<Reply, (Kind, Applied)>) {
    (id, Ok(Reply::Int(1)))
}

#[test]
fn a_call_goes_to_the_master_of_its_slot() {
    let (mut driver, a, b) = live();
    let low = driver.submit(set(LOW, 1), LONG);
    let high = driver.submit(set(HIGH, 2), LONG);
    assert_eq!(driver.commands(a), [format!("EVAL 1 {LOW} 1")]);
    assert_eq!(driver.commands(b), [format!("EVALSHA 1 {HIGH} 2")]);
    driver.says(b, ":1\r\n");
    driver.says(a, ":1\r\n");
    assert_eq!(driver.outcomes(), [ran(high), ran(low)]);
}

#[test]
fn a_call_that_is_directed_elsewhere_is_sent_there_and_later_ones_go_there_at_once() {
    let (mut driver, a, b) = live();
    let first = driver.submit(set(LOW, 1), LONG);
    driver.taken(a);
    let slot = set(LOW, 0).slot().unwrap();
    driver.says(a, format!("-MOVED {slot} b:1\r\n"));
    assert_eq!(driver.outcomes(), [], "the call has not run, and is on its way to the other node");
    assert_eq!(driver.commands(b), [format!("EVALSHA 1 {LOW} 1")]);
    let second = driver.submit(set(LOW, 2), LONG);
    driver.says(b, ":1\r\n");
    assert_eq!(driver.commands(b), [format!("EVALSHA 1 {LOW} 2")]);
    driver.says(b, ":1\r\n");
    assert_eq!(driver.outcomes(), [ran(first), ran(second)]);
    assert_eq!(driver.replaced, [Scope::slots([slot])]);
}

#[test]
fn a_redirection_without_a_host_leads_to_another_port_of_the_node_that_answered() {
    let (mut driver, a, _) = live();
    let slot = set(LOW, 0).slot().unwrap();
    let call = driver.submit(set(LOW, 1), LONG);
    driver.says(a, format!("-MOVED {slot} :7\r\n"));
    let named = accepts(&mut driver, "a");
    assert_eq!(driver.addresses[&named], Address::Tcp { host: "a".to_owned(), port: 7 });
    assert_eq!(driver.commands(named), [format!("EVAL 1 {LOW} 1")]);
    driver.says(named, ":1\r\n");
    assert_eq!(driver.outcomes(), [ran(call)]);
}

#[test]
fn a_node_that_refuses_writes_is_asked_about_and_the_next_call_goes_to_the_new_master() {
    let (mut driver, a, b) = live();
    refuses(&mut driver, a, "-READONLY You can't write against a read only replica.\r\n", Kind::ReadOnly);
    redraws(&mut driver, &[(0, 16_383, "b")], 2);
    assert_eq!(driver.replaced, [Scope::slots(0..8_192)]);
    let retry = driver.submit(set(LOW, 2), LONG);
    assert_eq!(driver.commands(b), [format!("EVALSHA 1 {LOW} 2")]);
    driver.says(b, ":1\r\n");
    assert_eq!(driver.outcomes(), [ran(retry)]);
}

#[test]
fn a_node_that_misses_its_replicas_is_asked_about_and_stays() {
    let (mut driver, a, _) = live();
    refuses(&mut driver, a, "-NOREPLICAS Not enough good replicas to write.\r\n", Kind::NoReplicas);
    redraws(&mut driver, &HALVES, 1);
    driver.taken(a);
    let retry = driver.submit(set(LOW, 2), LONG);
    assert_eq!(driver.commands(a).len(), 1, "the map names the node, so its connection stays");
    driver.says(a, ":1\r\n");
    assert_eq!(driver.outcomes(), [ran(retry)]);
    assert_eq!(driver.replaced, []);
}

#[test]
fn the_map_is_asked_for_at_most_once_a_second() {
    let (mut driver, a, b) = live();
    let slot = set(LOW, 0).slot().unwrap();
    driver.pass(Duration::from_secs(2));
    for value in 0..20 {
        driver.submit(set(LOW, value), LONG);
        let (at, other) = if value % 2 == 0 { (a, "b") } else { (b, "a") };
        driver.says(at, format!("-MOVED {slot} {other}:1\r\n"));
        let other = if at == a { b } else { a };
        driver.says(other, ":1\r\n");
    }
    let queries = driver.dials().len();
    assert_eq!(queries, 1, "{:?}", driver.dials());
    redraws(&mut driver, &HALVES, 1);
    driver.submit(set(LOW, 99), LONG);
    driver.says(a, format!("-MOVED {slot} b:1\r\n"));
    assert_eq!(driver.dials(), [""; 0]);
    driver.pass(Duration::from_secs(1));
    assert_eq!(driver.dials().len(), 1);
}

#[test]
fn a_slot_on_its_way_is_asked_for_one_call() {
    let (mut driver, a, b) = live();
    let slot = set(LOW, 0).slot().unwrap();
    let first = driver.submit(set(LOW, 1), LONG);
    driver.says(a, format!("-ASK {slot} b:1\r\n"));
    assert_eq!(driver.commands(b), ["ASKING".to_owned(), format!("EVALSHA 1 {LOW} 1")]);
    // The node has forgotten the script.
    driver.says(b, "+OK\r\n-NOSCRIPT No matching script.\r\n");
    assert_eq!(driver.commands(b), ["ASKING".to_owned(), format!("EVAL 1 {LOW} 1")]);
    driver.says(b, "+OK\r\n:1\r\n");
    driver.taken(a);
    let second = driver.submit(set(LOW, 2), LONG);
    assert_eq!(driver.commands(a), [format!("EVALSHA 1 {LOW} 2")], "the slot is still there");
    driver.says(a, ":1\r\n");
    assert_eq!(driver.outcomes(), [ran(first), ran(second)]);
    assert_eq!(driver.replaced, []);
}

#[test]
fn a_call_that_may_have_run_goes_to_no_other_node() {
    let (mut driver, a, _) = live();
    let call = driver.submit(set(LOW, 1), LONG);
    driver.hang_up(a);
    assert_eq!(driver.outcomes(), [(call, Err((Kind::ConnectionLost, Applied::Unknown)))]);
}

#[test]
fn a_node_that_comes_back_may_lack_what_its_slots_had() {
    let (mut driver, _, b) = live();
    driver.hang_up(b);
    assert_eq!(driver.dials(), ["b"]);
    let b = driver.accept_at("b");
    driver.says(b, "+PONG\r\n");
    assert_eq!(driver.replaced, [Scope::slots(8_192..16_384)]);
}

#[test]
fn a_node_that_cannot_run_a_call_now_refuses_it_and_keeps_its_connection() {
    let (mut driver, a, b) = live();
    for (text, kind) in [
        ("-TRYAGAIN Multiple keys request during rehashing of slot\r\n", Kind::TryAgain),
        ("-CLUSTERDOWN Hash slot not served\r\n", Kind::ClusterDown),
    ] {
        let refused = driver.submit(set(LOW, 1), LONG);
        driver.taken(a);
        driver.says(a, text);
        assert_eq!(driver.outcomes(), [(refused, Err((kind, Applied::No)))], "the engine repeats it");
        assert_eq!((driver.commands(a), driver.commands(b)), (Vec::new(), Vec::new()), "the wire does not");
        let next = driver.submit(set(LOW, 2), LONG);
        assert_eq!(driver.commands(a).len(), 1, "{kind:?} closes no connection");
        driver.says(a, ":1\r\n");
        assert_eq!(driver.outcomes(), [ran(next)]);
    }
}

#[test]
fn a_call_in_a_circle_ends() {
    let (mut driver, a, b) = live();
    let slot = set(LOW, 0).slot().unwrap();
    let call = driver.submit(set(LOW, 1), LONG);
    for _ in 0..3 {
        driver.says(a, format!("-MOVED {slot} b:1\r\n"));
        driver.says(b, format!("-MOVED {slot} a:1\r\n"));
    }
    let (refused, outcome) = driver.replies.pop().unwrap();
    let error = outcome.unwrap_err();
    assert_eq!((refused, error.kind, error.applied), (call, Kind::WrongNode, Applied::No));
    let text = std::error::Error::source(&error).unwrap().to_string();
    assert!(text.contains("to \"b:1, a:1, b:1, a:1, b:1\";"), "{text}");
}

#[test]
fn a_map_of_an_earlier_epoch_does_not_lead_back() {
    let (mut driver, a, b) = live();
    driver.pass(Duration::from_secs(2));
    driver.submit(set(LOW, 1), LONG);
    driver.says(a, "-CLUSTERDOWN The cluster is down\r\n");
    let asked = driver.dials()[0].to_owned();
    let other = if asked == "a" { "b" } else { "a" };
    draws(&mut driver, &asked, &[(0, 16_383, &asked)], 0);
    draws(&mut driver, other, &[(0, 16_383, "b")], 2);
    driver.outcomes();
    driver.taken(b);
    driver.submit(set(LOW, 2), LONG);
    assert_eq!(driver.commands(b), [format!("EVALSHA 1 {LOW} 2")]);
}

#[test]
fn calls_for_a_node_without_slots_move_and_the_node_is_left() {
    let (mut driver, a, b) = live();
    driver.pass(Duration::from_secs(2));
    driver.submit(set(HIGH, 1), LONG);
    driver.hang_up(b);
    driver.outcomes();
    let waiting = driver.submit(set(HIGH, 2), LONG);
    driver.refuse_at("b");
    assert_eq!(driver.outcomes(), [(waiting, Err((Kind::Unreachable, Applied::No)))]);
    let waiting = driver.submit(set(HIGH, 3), LONG);
    while !driver.dials().contains(&"a") {
        driver.refuse_at("b");
    }
    draws(&mut driver, "a", &[(0, 16_383, "a")], 2);
    driver.taken(a);
    driver.says(a, ":1\r\n");
    assert_eq!(driver.outcomes(), [ran(waiting)]);
    assert_eq!(driver.replaced, [Scope::slots(8_192..16_384)]);
    driver.pass(Duration::from_secs(20));
    assert!(!driver.dials().contains(&"b"), "{:?}", driver.dials());
}

#[test]
fn keys_of_two_slots_are_refused_with_what_to_write() {
    let (mut driver, _, _) = live();
    let call = Call::of(&SET).key("key", LOW).arg("value", 1);
    assert!(call.keys_of_two_slots().is_none());
    let two = Call::with(&SET, [LOW, HIGH], ["1"]);
    let id = driver.submit(two, LONG);
    let (refused, outcome) = driver.replies.pop().unwrap();
    let error = outcome.unwrap_err();
    assert_eq!((refused, error.kind, error.applied), (id, Kind::CrossSlot, Applied::No));
    let text = std::error::Error::source(&error).unwrap().to_string();
    assert!(text.contains(LOW) && text.contains(HIGH) && text.contains("with_hash_tag"), "{text}");
}

#[test]
fn a_sharded_channel_follows_its_slot() {
    let (mut driver, _, _) = live();
    let channel = format!("c:{LOW}");
    driver.subscribe(1, &channel);
    let at_a = accepts(&mut driver, "a");
    assert_eq!(driver.commands(at_a).last().unwrap(), &format!("SSUBSCRIBE {channel}"));
    driver.says(at_a, array(&["ssubscribe", &channel]).replace("*2", "*3") + ":1\r\n");
    assert!(matches!(driver.heard.as_slice(), [(1, Heard::Listening(_))]));
    // The slot leaves, and the node ends the subscription.
    driver.says(at_a, array(&["sunsubscribe", &channel]).replace("*2", "*3") + ":0\r\n");
    assert_eq!(driver.commands(at_a), [format!("SSUBSCRIBE {channel}")]);
    let slot = set(LOW, 0).slot().unwrap();
    driver.says(at_a, format!("-MOVED {slot} b:1\r\n"));
    let at_b = accepts(&mut driver, "b");
    assert_eq!(driver.commands(at_b).last().unwrap(), &format!("SSUBSCRIBE {channel}"));
    driver.says(at_b, array(&["ssubscribe", &channel]).replace("*2", "*3") + ":1\r\n");
    assert_eq!(driver.heard.len(), 2, "the subscriber learns that it listens again");
    driver.says(at_b, array(&["smessage", &channel, "0"]));
    assert!(matches!(driver.heard.last(), Some((1, Heard::Message(_, _)))));
    driver.unsubscribe(1, &channel);
    driver.pass(Duration::from_secs(1));
    assert_eq!(driver.commands(at_b).last().unwrap(), &format!("SUNSUBSCRIBE {channel}"));
}

#[test]
fn a_channel_that_two_nodes_direct_to_each_other_waits_for_a_map() {
    let (mut driver, _, _) = live();
    let channel = format!("c:{LOW}");
    let slot = set(LOW, 0).slot().unwrap();
    driver.subscribe(1, &channel);
    let first = accepts(&mut driver, "a");
    let request = format!("SSUBSCRIBE {channel}");
    assert_eq!(driver.commands(first).last(), Some(&request));
    driver.says(first, format!("-MOVED {slot} b:1\r\n"));
    let second = accepts(&mut driver, "b");
    let mut nodes = [(second, "a"), (first, "b")].into_iter().cycle();
    for _ in 1..6 {
        let (at, other) = nodes.next().unwrap();
        assert_eq!(driver.commands(at).last(), Some(&request));
        driver.says(at, format!("-MOVED {slot} {other}:1\r\n"));
    }
    for node in [first, second] {
        assert_eq!(driver.commands(node), [""; 0], "the sixth redirection is not followed");
    }
    assert_eq!(driver.replaced.len(), 5);
    driver.pass(Duration::from_secs(1));
    assert_eq!(driver.commands(second), [request.as_str()], "the same node is asked again after a pause");
    driver.says(second, format!("-MOVED {slot} a:1\r\n"));
    assert!(!driver.commands(first).contains(&request), "it is not followed until a map decides");
    redraws(&mut driver, &HALVES, 2);
    assert_eq!(driver.commands(first), [request.as_str()]);
    driver.says(
        first,
        "+PONG\r\n".to_owned() + &array(&["ssubscribe", &channel]).replace("*2", "*3") + ":1\r\n",
    );
    assert!(matches!(driver.heard.as_slice(), [(1, Heard::Listening(_))]));
}

#[test]
fn each_seed_is_asked_while_the_others_are_silent() {
    let mut driver = driver(Servers::Cluster { seeds: vec![at("a"), at("b"), at("c")] });
    driver.input(Input::Open);
    driver.pass(Duration::from_millis(700));
    assert_eq!(driver.dials(), ["a", "b", "c"]);
    draws(&mut driver, "c", &HALVES, 1);
    let _silent = driver.accept_at("a");
    greets(&mut driver, "a");
    assert_eq!(driver.opened, [Ok(())]);
}

#[test]
fn a_seed_that_is_no_master_is_asked_when_no_master_can_be_reached() {
    let mut driver = driver(Servers::Cluster { seeds: vec![at("seed")] });
    driver.input(Input::Open);
    draws(&mut driver, "seed", &HALVES, 1);
    let a = greets(&mut driver, "a");
    driver.pass(Duration::from_secs(2));
    // Both masters come back at other addresses. The next round begins with a tick, after a pause.
    let call = driver.submit(set(LOW, 1), LONG);
    driver.hang_up(a);
    assert_eq!(driver.outcomes(), [(call, Err((Kind::ConnectionLost, Applied::Unknown)))]);
    driver.submit(set(LOW, 2), LONG);
    let mut rounds = 0;
    while !driver.dials().contains(&"seed") {
        for host in ["a", "b"] {
            while driver.dials().contains(&host) {
                driver.refuse_at(host);
            }
        }
        driver.pass(Duration::from_millis(300));
        driver.submit(set(LOW, 3), LONG);
        rounds += 1;
        assert!(rounds < 20, "the seed is never asked: {:?}", driver.dials());
    }
    draws(&mut driver, "seed", &[(0, 16_383, "c")], 2);
    driver.submit(set(LOW, 4), LONG);
    greets(&mut driver, "c");
}

#[test]
fn a_slot_that_nobody_had_in_between_takes_its_channels_along() {
    let (mut driver, a, _) = live();
    let slot = set(LOW, 0).slot().unwrap();
    let channel = format!("c:{LOW}");
    driver.subscribe(1, &channel);
    let at_a = accepts(&mut driver, "a");
    assert_eq!(driver.commands(at_a).last().unwrap(), &format!("SSUBSCRIBE {channel}"));
    let holes = [(0, slot - 1, "a"), (slot + 1, 8_191, "a"), (8_192, 16_383, "b")];
    let with_b = [(0, slot - 1, "a"), (slot, slot, "b"), (slot + 1, 8_191, "a"), (8_192, 16_383, "b")];
    for (ranges, epoch) in [(&holes[..], 2), (&with_b[..], 3)] {
        driver.pass(Duration::from_secs(2));
        driver.submit(set(LOW, 1), LONG);
        driver.taken(a);
        driver.says(a, "-CLUSTERDOWN Hash slot not served\r\n");
        redraws(&mut driver, ranges, epoch);
    }
    assert_eq!(driver.replaced, [Scope::slots([slot])]);
    let at_b = accepts(&mut driver, "b");
    assert_eq!(driver.commands(at_b).last().unwrap(), &format!("SSUBSCRIBE {channel}"));
}

#[test]
fn a_master_that_does_not_answer_in_time_is_asked_about_at_once() {
    let (mut driver, a, _) = live();
    driver.pass(Duration::from_secs(2));
    let call = driver.submit(set(LOW, 1), SHORT);
    driver.pass(SHORT);
    assert_eq!(driver.outcomes(), [(call, Err((Kind::Timeout, Applied::Unknown)))]);
    assert!(!driver.streams.contains_key(&a));
    assert!(!driver.dials().is_empty(), "a round has begun");
}

/// A frozen master may run the call when it resumes, and its grant counts for less once the map has changed.
#[test]
fn a_master_that_is_silent_for_a_while_is_asked_about_before_its_call_ends_and_after_its_answer() {
    let (mut driver, a, _) = live();
    driver.pass(Duration::from_secs(2));
    let call = driver.submit(set(LOW, 1), LONG);
    driver.pass(Duration::from_millis(299));
    assert!(driver.dials().is_empty());
    driver.pass(Duration::from_millis(1));
    redraws(&mut driver, &[(0, 16_383, "b")], 2);
    assert_eq!(driver.outcomes(), [], "the call is still on its way");
    assert_eq!(driver.replaced.len(), 1, "the engine learns of the change before the grant comes");
    driver.pass(Duration::from_millis(900));
    driver.says(a, ":1\r\n");
    assert_eq!(driver.outcomes(), [ran(call)]);
    driver.pass(Duration::from_secs(1));
    assert!(!driver.dials().is_empty(), "another server may have taken over since the last round");
}

#[test]
fn plain_channels_leave_a_node_that_is_dropped() {
    let url = ServerUrl {
        servers: Servers::Cluster { seeds: vec![at("b")] },
        tls: false,
        credentials: None,
        db: 0,
    };
    let options = ConnectOptions::default().resp3(false).at_once(1).sharded_pubsub(ShardedPubsub::Off);
    let mut driver = Driver::of(url, options);
    let slot = set(LOW, 0).slot().unwrap();
    let ranges = [(slot, slot, "a"), (slot + 1, 16_383, "b")];
    driver.input(Input::Open);
    draws(&mut driver, "b", &ranges, 1);
    let a = greets(&mut driver, "a");
    driver.subscribe(1, "c");
    let channels = accepts(&mut driver, "a");
    assert_eq!(driver.commands(channels).last().unwrap(), "SUBSCRIBE c");
    driver.says(channels, "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    driver.unsubscribe(1, "c");
    driver.pass(Duration::from_secs(3));
    driver.says(channels, "*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n");
    driver.submit(set(LOW, 1), LONG);
    driver.says(a, "-CLUSTERDOWN The cluster is down\r\n");
    redraws(&mut driver, &ranges, 1);
    // The last slot of the node moves, and it goes before the next map comes.
    driver.submit(set(LOW, 2), LONG);
    driver.says(a, format!("-MOVED {slot} b:1\r\n"));
    greets(&mut driver, "b");
    driver.input(Input::Tick);
    assert_eq!(driver.dials(), [""; 0]);
    driver.subscribe(2, "c");
    let channels = accepts(&mut driver, "b");
    assert_eq!(driver.commands(channels).last().unwrap(), "SUBSCRIBE c");
}
