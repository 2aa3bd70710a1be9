//! Tests of a fleet with sentinels: `a` and `b` are data servers, `s`, `t` and `u` sentinels.

use std::time::Duration;

use leasehold_proto::{Applied, Confirm, Reply, Scope, StoreErrorKind as Kind};

use super::{array, at, driver};
use crate::confirm::Confirmation;
use crate::redis::connect::{AddressMap, ConnectOptions};
use crate::redis::wire::harness::{Driver, LONG};
use crate::redis::wire::{ConnId, Input};
use crate::url::{Address, ServerUrl, Servers};

/// The answers of a data server that is a master to the first commands, and those of a replica.
const MASTER: &str =
    "+PONG\r\n*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n-ERR unknown command 'HELLO'\r\n:0\r\n:1\r\n";
const REPLICA: &str = "+PONG\r\n*2\r\n$5\r\nslave\r\n$1\r\na\r\n-ERR unknown command 'HELLO'\r\n:0\r\n:1\r\n";

fn fleet(sentinels: &[&str]) -> Driver {
    let sentinels = sentinels.iter().map(|host| at(host)).collect();
    driver(Servers::Sentinel { sentinels, service: "m".to_owned(), credentials: None })
}

/// Lets a sentinel greet, and answer that this is the master, and that no other sentinel is known.
fn names(driver: &mut Driver, sentinel: &str, master: &str, epoch: u32) -> ConnId {
    names_with(driver, sentinel, master, epoch, "*0\r\n")
}

fn names_with(driver: &mut Driver, sentinel: &str, master: &str, epoch: u32, others: &str) -> ConnId {
    let id = asked(driver, sentinel);
    let epoch = epoch.to_string();
    let master = array(&["name", "m", "ip", master, "port", "1", "config-epoch", &epoch]);
    driver.says(id, master + others);
    id
}

/// Lets a sentinel greet, on the connections that are dialed up to one with a query, which is returned.
fn asked(driver: &mut Driver, sentinel: &str) -> ConnId {
    loop {
        let id = driver.accept_at(sentinel);
        driver.says(id, "+PONG\r\n");
        let asked = driver.commands(id);
        if asked[1..] == ["SENTINEL MASTER m", "SENTINEL SENTINELS m"] {
            return id;
        }
        assert_eq!(asked[1..], ["SUBSCRIBE +switch-master"]);
    }
}

/// Lets a data server greet.
fn greets(driver: &mut Driver, host: &str, greeting: &str) -> ConnId {
    let id = driver.accept_at(host);
    assert!(driver.commands(id).contains(&"ROLE".to_owned()));
    driver.says(id, greeting);
    id
}

/// Returns an open fleet of one sentinel whose master is `a`.
fn live() -> (Driver, ConnId) {
    let mut driver = fleet(&["s"]);
    driver.input(Input::Open);
    names(&mut driver, "s", "a", 1);
    let id = greets(&mut driver, "a", MASTER);
    assert_eq!(driver.opened, [Ok(())]);
    (driver, id)
}

/// Lets the sentinel `s` confirm the subscription to new masters. Returns the connection.
fn watched(driver: &mut Driver) -> ConnId {
    let id = driver.accept_at("s");
    driver.says(id, "+PONG\r\n");
    assert_eq!(driver.commands(id)[1..], ["SUBSCRIBE +switch-master"]);
    driver.says(id, "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n");
    assert_eq!(driver.heard, [], "no subscriber of the client hears a sentinel");
    id
}

#[test]
fn calls_wait_for_the_master_and_go_to_it_in_order() {
    let mut driver = fleet(&["s", "t"]);
    driver.set(1, LONG);
    driver.set(2, LONG);
    names(&mut driver, "s", "a", 1);
    let id = greets(&mut driver, "a", MASTER);
    assert_eq!(driver.commands(id), ["EVAL 2 k k 11 1 0 1 2"]);
    driver.says(id, "*2\r\n:1\r\n:2\r\n");
    assert_eq!(driver.outcomes(), [(1, Ok(Reply::Int(1))), (2, Ok(Reply::Int(2)))]);
    assert_eq!(driver.replaced, [], "the first master replaces no other");
}

#[test]
fn a_server_that_is_no_master_gets_no_call() {
    let mut driver = fleet(&["s"]);
    driver.set(1, LONG);
    names(&mut driver, "s", "a", 1);
    let id = greets(&mut driver, "a", REPLICA);
    assert!(driver.reset.contains(&id) && !driver.streams.contains_key(&id));
    assert_eq!(driver.outcomes(), [(1, Err((Kind::ReadOnly, Applied::No)))]);
    driver.set(2, LONG);
    driver.pass(Duration::from_millis(100));
    names(&mut driver, "s", "b", 2);
    let id = greets(&mut driver, "b", MASTER);
    driver.says(id, ":1\r\n");
    assert_eq!(driver.outcomes(), [(2, Ok(Reply::Int(1)))]);
}

#[test]
fn a_sentinel_that_leads_a_failover_does_not_lead_back_to_the_old_master() {
    // The leader has raised its epoch, and names the old master until the replicas follow the new one.
    let leader_names = |driver: &mut Driver, master: &str, epoch: &str| {
        let id = asked(driver, "s");
        let flags = "master,failover_in_progress";
        let fields = ["name", "m", "ip", master, "port", "1", "flags", flags, "config-epoch", epoch];
        driver.says(id, array(&fields) + "*0\r\n");
    };
    let mut driver = fleet(&["s", "t"]);
    driver.set(1, LONG);
    leader_names(&mut driver, "a", "4");
    names(&mut driver, "t", "b", 4);
    let id = greets(&mut driver, "b", MASTER);
    driver.says(id, ":1\r\n");
    assert_eq!(driver.outcomes(), [(1, Ok(Reply::Int(1)))]);
    driver.pass(Duration::from_secs(11));
    leader_names(&mut driver, "a", "4");
    names(&mut driver, "t", "b", 4);
    assert!(driver.streams.contains_key(&id), "the client stays at the new master");
}

#[test]
fn the_answer_of_the_latest_epoch_counts() {
    let mut driver = fleet(&["s", "t", "u"]);
    driver.set(1, LONG);
    names(&mut driver, "s", "a", 3);
    names(&mut driver, "t", "b", 4);
    names(&mut driver, "u", "a", 3);
    assert!(driver.dials().contains(&"b"), "{:?}", driver.dials());
    let id = greets(&mut driver, "b", MASTER);
    driver.says(id, ":1\r\n");
    assert_eq!(driver.outcomes(), [(1, Ok(Reply::Int(1)))]);
    // A sentinel that was cut off answers first in the next round.
    driver.pass(Duration::from_secs(11));
    names(&mut driver, "s", "a", 3);
    assert!(driver.streams.contains_key(&id), "the epoch is earlier than that of the master");
    names(&mut driver, "t", "b", 4);
    names(&mut driver, "u", "a", 3);
    assert!(driver.streams.contains_key(&id));
}

#[test]
fn a_new_master_ends_all_connections_to_the_old_one() {
    let (mut driver, id) = live();
    let watch = watched(&mut driver);
    names(&mut driver, "s", "a", 1);
    driver.set(1, LONG);
    driver.set(2, LONG);
    driver.says(watch, "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$9\r\nm a 1 b 1\r\n");
    names(&mut driver, "s", "b", 2);
    assert!(!driver.streams.contains_key(&id));
    assert_eq!(driver.outcomes(), [(1, Err((Kind::ConnectionLost, Applied::Unknown)))]);
    assert_eq!(driver.replaced, [Scope::All]);
    let id = greets(&mut driver, "b", MASTER);
    driver.says(id, ":2\r\n");
    assert_eq!(
        driver.outcomes(),
        [(2, Ok(Reply::Int(2)))],
        "a call that was not sent goes to the new master"
    );
    let told: Vec<_> =
        driver.serving.iter().map(|serving| (&serving.server, serving.again, serving.moved)).collect();
    assert_eq!(told, [(&at("a"), false, false), (&at("b"), true, true)], "no sentinel is told");
}

const READONLY: &str = "-READONLY You can't write against a read only replica.\r\n";
const NOREPLICAS: &str = "-NOREPLICAS Not enough good replicas to write.\r\n";

/// Starts a client whose master has refused a call a second later.
fn refused_by_the_master(text: &str, kind: Kind) -> (Driver, ConnId) {
    let (mut driver, id) = live();
    driver.pass(Duration::from_secs(1));
    driver.set(1, LONG);
    driver.says(id, text);
    assert_eq!(driver.outcomes(), [(1, Err((kind, Applied::No)))]);
    (driver, id)
}

/// Checks that after this refusal the client asks the sentinels, and goes to the master that they name.
fn leads_to_the_next_master(text: &str, kind: Kind) {
    let (mut driver, _) = refused_by_the_master(text, kind);
    names(&mut driver, "s", "b", 2);
    driver.set(2, LONG);
    let id = greets(&mut driver, "b", MASTER);
    driver.says(id, ":1\r\n");
    assert_eq!(driver.outcomes(), [(2, Ok(Reply::Int(1)))]);
}

#[test]
fn a_master_that_refuses_writes_is_asked_about() {
    leads_to_the_next_master(READONLY, Kind::ReadOnly);
}

#[test]
fn a_master_that_misses_its_replicas_is_asked_about_and_stays() {
    let (mut driver, id) = refused_by_the_master(NOREPLICAS, Kind::NoReplicas);
    names(&mut driver, "s", "a", 1);
    driver.set(2, LONG);
    driver.says(id, ":1\r\n");
    assert_eq!(driver.outcomes(), [(2, Ok(Reply::Int(1)))], "its sentinels name it, so its connection stays");
}

#[test]
fn a_master_that_misses_its_replicas_is_left_for_the_one_that_the_sentinels_name() {
    leads_to_the_next_master(NOREPLICAS, Kind::NoReplicas);
}

#[test]
fn calls_fail_when_no_sentinel_answers_and_succeed_when_one_does() {
    let mut driver = fleet(&["s", "t"]);
    driver.set(1, LONG);
    for host in ["s", "s", "t", "t"] {
        driver.refuse_at(host);
    }
    assert_eq!(driver.outcomes(), [(1, Err((Kind::Unreachable, Applied::No)))]);
    driver.set(2, LONG);
    driver.pass(Duration::from_millis(100));
    assert_eq!(driver.outcomes(), [], "the next round follows after a pause");
    names(&mut driver, "t", "a", 1);
    let id = greets(&mut driver, "a", MASTER);
    driver.says(id, ":1\r\n");
    assert_eq!(driver.outcomes(), [(2, Ok(Reply::Int(1)))]);
}

#[test]
fn an_unknown_service_is_an_error_of_the_sentinels() {
    let mut driver = fleet(&["s"]);
    driver.input(Input::Open);
    let id = asked(&mut driver, "s");
    driver.says(id, "-ERR No such master with that name\r\n-ERR No such master with that name\r\n");
    let error = driver.opened.pop().unwrap().unwrap_err();
    assert_eq!((error.kind, error.applied), (Kind::Unreachable, Applied::No));
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(source, "no sentinel knows the service \"m\"; check its name");
}

#[test]
fn sentinels_are_learned_and_forgotten() {
    let mut driver = fleet(&["s"]);
    driver.set(1, LONG);
    let others = "*1\r\n".to_owned() + &array(&["name", "t", "ip", "t", "port", "1"]);
    names_with(&mut driver, "s", "a", 1, &others);
    let id = greets(&mut driver, "a", MASTER);
    driver.says(id, ":1\r\n");
    assert!(driver.dials().contains(&"t"), "the client listens to {:?}", driver.dials());
    driver.pass(Duration::from_secs(11));
    names(&mut driver, "s", "a", 1);
    names(&mut driver, "t", "a", 1);
    driver.pass(Duration::from_secs(11));
    names(&mut driver, "s", "a", 1);
    // The sentinel that is gone, for its query and for its subscription.
    while driver.dials().contains(&"t") {
        driver.refuse_at("t");
    }
    driver.pass(Duration::from_secs(11));
    names(&mut driver, "s", "a", 1);
    assert!(!driver.dials().contains(&"t"), "{:?}", driver.dials());
}

#[test]
fn the_only_sentinel_that_answers_is_kept() {
    let mut driver = fleet(&["s"]);
    driver.set(1, LONG);
    let named = |hosts: &[&str]| {
        let entry = |host: &&str| array(&["name", *host, "ip", *host, "port", "1"]);
        format!("*{}\r\n{}", hosts.len(), hosts.iter().map(entry).collect::<String>())
    };
    names_with(&mut driver, "s", "a", 1, &named(&["t", "u"]));
    let id = greets(&mut driver, "a", MASTER);
    driver.says(id, ":1\r\n");
    // The sentinel of the URL and `u` are gone for good, and `t` goes on to name them.
    let mut answers = 0;
    for _ in 0..60 {
        driver.pass(Duration::from_secs(1));
        while let Some(host) = driver.dials().first().map(|host| (*host).to_owned()) {
            if host != "t" {
                driver.refuse_at(&host);
                continue;
            }
            let id = driver.accept_at("t");
            driver.says(id, "+PONG\r\n");
            if driver.commands(id).contains(&"SENTINEL MASTER m".to_owned()) {
                answers += 1;
                let master = array(&["name", "m", "ip", "a", "port", "1", "config-epoch", "1"]);
                driver.says(id, master + &named(&["s", "u"]));
            }
        }
    }
    assert!(answers >= 5, "asked {answers} times in a minute, in which it has always answered");
}

#[test]
fn a_silent_sentinel_does_not_delay_the_new_master() {
    let mut driver = fleet(&["s", "t", "u"]);
    driver.input(Input::Open);
    names(&mut driver, "s", "a", 1);
    let id = greets(&mut driver, "a", MASTER);
    names(&mut driver, "t", "a", 1);
    let silent = driver.accept_at("u");
    let watch = watched(&mut driver);
    driver.says(watch, "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$9\r\nm a 1 b 1\r\n");
    driver.pass(Duration::from_millis(300));
    names(&mut driver, "t", "b", 2);
    assert!(!driver.streams.contains_key(&id), "the client leaves the old master");
    // What the silent one says at last is older.
    let master = array(&["name", "m", "ip", "a", "port", "1", "config-epoch", "1"]);
    driver.says(silent, "+PONG\r\n".to_owned() + &master + "*0\r\n");
    names(&mut driver, "s", "b", 2);
    assert_eq!(driver.replaced, [Scope::All]);
    driver.set(1, LONG);
    greets(&mut driver, "b", MASTER);
}

#[test]
fn one_sentinel_that_was_cut_off_does_not_lead_a_fit_client_back_and_most_of_them_do() {
    let mut driver = fleet(&["s", "t", "u"]);
    driver.set(1, LONG);
    for sentinel in ["s", "t", "u"] {
        names(&mut driver, sentinel, "b", 5);
    }
    let id = greets(&mut driver, "b", MASTER);
    driver.says(id, ":1\r\n");
    driver.pass(Duration::from_secs(11));
    names(&mut driver, "s", "a", 4);
    for host in ["t", "t", "u", "u"] {
        driver.refuse_at(host);
    }
    assert!(driver.streams.contains_key(&id) && driver.replaced.is_empty(), "one of three is no evidence");
    driver.pass(Duration::from_secs(11));
    for sentinel in ["s", "t"] {
        names(&mut driver, sentinel, "a", 4);
    }
    driver.refuse_at("u");
    assert!(!driver.streams.contains_key(&id), "the fleet was created anew");
    assert_eq!(driver.replaced, [Scope::All]);
}

#[test]
fn sentinels_are_asked_for_calls_alone_once_none_knows_the_service() {
    let mut driver = fleet(&["s"]);
    driver.set(1, LONG);
    for _ in 0..2 {
        driver.refuse_at("s");
    }
    assert_eq!(driver.outcomes(), [(1, Err((Kind::Unreachable, Applied::No)))]);
    driver.pass(Duration::from_secs(1));
    watched(&mut driver);
    driver.pass(Duration::from_secs(8));
    assert_eq!(driver.dials(), [""; 0], "nine seconds without a call");
}

#[test]
fn a_master_of_a_later_epoch_is_checked_although_it_is_the_same() {
    let (mut driver, _) = live();
    for (epoch, replaced) in [(1, 0), (3, 1), (3, 1)] {
        driver.pass(Duration::from_secs(10));
        names(&mut driver, "s", "a", epoch);
        assert_eq!(driver.replaced, vec![Scope::All; replaced], "epoch {epoch}");
    }
}

#[test]
fn an_epoch_of_a_failover_under_way_is_later_once_it_is_over() {
    let (mut driver, _) = live();
    let of_epoch = |flags: &str| {
        let fields = ["name", "m", "ip", "a", "port", "1", "flags", flags, "config-epoch", "4"];
        array(&fields) + "*0\r\n"
    };
    for (flags, replaced) in [("master,failover_in_progress", 0), ("master", 1)] {
        driver.pass(Duration::from_secs(10));
        let id = asked(&mut driver, "s");
        driver.says(id, of_epoch(flags));
        assert_eq!(driver.replaced, vec![Scope::All; replaced], "{flags}");
    }
}

#[test]
fn a_master_that_its_replicas_do_not_follow_is_asked_about() {
    let sentinels = vec![at("s")];
    let url = ServerUrl {
        servers: Servers::Sentinel { sentinels, service: "m".to_owned(), credentials: None },
        tls: false,
        credentials: None,
        db: 0,
    };
    let terms = Confirmation::new(Confirm::AtLeast(1), Duration::from_millis(100));
    let mut driver = Driver::of(url, ConnectOptions::default().resp3(false).at_once(1).confirmation(terms));
    driver.input(Input::Open);
    names(&mut driver, "s", "a", 1);
    greets(&mut driver, "a", &MASTER.replacen("-ERR", ":0\r\n-ERR", 1));
    driver.pass(Duration::from_secs(1));
    driver.set(1, LONG);
    let id = driver.accept_at("a");
    driver.taken(id);
    driver.says(id, "+PONG\r\n*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n");
    driver.says(id, ":1\r\n:0\r\n");
    assert_eq!(driver.outcomes(), [(1, Err((Kind::Unconfirmed, Applied::Unknown)))]);
    names(&mut driver, "s", "b", 2);
    assert!(!driver.streams.contains_key(&id));
    assert_eq!(driver.replaced, [Scope::All]);
}

#[test]
fn the_addresses_of_the_master_and_of_sentinels_that_sentinels_name_are_translated() {
    let url = ServerUrl {
        servers: Servers::Sentinel { sentinels: vec![at("s")], service: "m".to_owned(), credentials: None },
        tls: false,
        credentials: None,
        db: 0,
    };
    let public = |announced| match announced {
        Address::Tcp { host, port } => Address::Tcp { host: format!("public-{host}"), port: port + 1 },
        unix @ Address::Unix { .. } => unix,
    };
    let map = Some(AddressMap::new(public));
    let mut driver = Driver::of(url, ConnectOptions::default().resp3(false).at_once(1).address_map(map));
    driver.set(1, LONG);
    let others = "*1\r\n".to_owned() + &array(&["name", "t", "ip", "t", "port", "1"]);
    names_with(&mut driver, "s", "a", 1, &others);
    let id = greets(&mut driver, "public-a", MASTER);
    assert_eq!(driver.addresses[&id], Address::Tcp { host: "public-a".to_owned(), port: 2 });
    driver.says(id, ":1\r\n");
    assert_eq!(driver.outcomes(), [(1, Ok(Reply::Int(1)))]);
    driver.pass(Duration::from_secs(11));
    names_with(&mut driver, "s", "a", 1, &others);
    let sentinel = names(&mut driver, "public-t", "a", 1);
    assert_eq!(driver.addresses[&sentinel], Address::Tcp { host: "public-t".to_owned(), port: 2 });
    assert!(driver.streams.contains_key(&id), "both sentinels name the same master");
    assert_eq!(driver.replaced, []);
}
