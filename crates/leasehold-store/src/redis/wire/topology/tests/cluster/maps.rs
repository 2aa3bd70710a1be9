//! Tests of the first contact with a cluster, and of the maps that its nodes draw.

use super::*;

#[test]
fn the_map_of_the_largest_cluster_is_read() {
    let (id, host) = ("$40\r\n0123456789abcdef0123456789abcdef01234567\r\n", "$9\r\n10.0.0.10\r\n");
    // Each slot in a range of its own, on a master with two replicas, in the older form.
    let node = format!("*3\r\n{host}:6379\r\n{id}");
    let range = |slot: u16| format!("*5\r\n:{slot}\r\n:{slot}\r\n{}", node.repeat(3));
    let slots = format!("*16384\r\n{}", (0..16_384).map(range).collect::<String>());
    // A thousand masters with a replica each, in the newer form.
    let node = |role: &str| {
        let fields = [("id", id), ("port", ":6379\r\n"), ("ip", host), ("endpoint", host)];
        let fields = fields.map(|(name, value)| format!("${}\r\n{name}\r\n{value}", name.len())).concat();
        let role = format!("$4\r\nrole\r\n${}\r\n{role}\r\n", role.len());
        format!("*14\r\n{fields}{role}$18\r\nreplication-offset\r\n:1\r\n$6\r\nhealth\r\n$6\r\nonline\r\n")
    };
    let nodes = node("master") + &node("replica");
    let shard = |n: u16| {
        let (first, last) = (16 * n, if n == 999 { 16_383 } else { 16 * n + 15 });
        format!("*4\r\n$5\r\nslots\r\n*2\r\n:{first}\r\n:{last}\r\n$5\r\nnodes\r\n*2\r\n{nodes}")
    };
    let shards = format!("*1000\r\n{}", (0..1_000).map(shard).collect::<String>());
    for map in [slots, shards] {
        let mut driver = cluster();
        driver.submit(set(LOW, 1), LONG);
        let query = accepts(&mut driver, "a");
        driver.says(query, map + "$23\r\ncluster_current_epoch:1\r\n");
        assert_eq!(driver.dials(), ["10.0.0.10"]);
    }
}

#[test]
fn a_client_that_first_meets_a_busy_node_listens_later() {
    let mut driver = cluster();
    driver.subscribe(1, &format!("c:{LOW}"));
    let first = driver.submit(set(LOW, 1), LONG);
    draws(&mut driver, "a", &[(0, 16_383, "b")], 1);
    let busy = "-BUSY Redis is busy running a script.\r\n";
    let b = driver.accept_at("b");
    driver.says(b, format!("{busy}*2\r\n$4\r\nmode\r\n$7\r\ncluster\r\n{busy}{busy}"));
    driver.says(b, busy);
    assert_eq!(driver.outcomes(), [(first, Err((Kind::Busy, Applied::No)))]);
    driver.pass(Duration::from_secs(1));
    assert_eq!(driver.dials(), [""; 0], "it is asked by calls alone");
    // The node works again.
    let next = driver.submit(set(LOW, 2), LONG);
    driver.says(b, ":1\r\n");
    assert_eq!(driver.outcomes(), [ran(next)]);
    let second = accepts(&mut driver, "b");
    assert!(driver.reset.contains(&b), "its connection has no call left");
    let session = accepts(&mut driver, "b");
    assert_ne!(second, session);
    assert_eq!(driver.commands(session).last().unwrap(), &format!("SSUBSCRIBE c:{LOW}"));
}

#[test]
fn a_call_reports_no_outcome_of_another_call_whatever_is_due() {
    let mut driver = cluster();
    let one = driver.submit(set(LOW, 1), LONG);
    // A node that has no slots yet, as before `cluster create`. The other seed is asked, and is silent.
    let query = accepts(&mut driver, "a");
    let down = "cluster_state:fail\r\ncluster_current_epoch:0\r\n";
    driver.says(query, map(&[]) + &format!("${}\r\n{down}\r\n", down.len()));
    assert_eq!(driver.outcomes(), []);
    assert_eq!(driver.dials(), ["b"]);
    // The wait for it is over, and a caller is faster than the driver's tick.
    driver.now = driver.now + Duration::from_millis(301);
    let other = driver.submit(set(LOW, 2), LONG);
    assert_eq!(driver.outcomes(), [], "the caller's thread would deliver them");
    driver.pass(Duration::ZERO);
    assert_eq!(driver.outcomes(), [one, other].map(|id| (id, Err((Kind::ClusterDown, Applied::No)))));
}

#[test]
fn a_call_takes_no_map_that_is_due() {
    let (mut driver, a, b) = live();
    refuses(&mut driver, a, "-CLUSTERDOWN The cluster is down\r\n", Kind::ClusterDown);
    let down = "cluster_state:fail\r\ncluster_current_epoch:2\r\n";
    let asked = driver.dials()[0].to_owned();
    let query = accepts(&mut driver, &asked);
    driver.says(query, map(&[(0, 16_383, "c")]) + &format!("${}\r\n{down}\r\n", down.len()));
    driver.now = driver.now + Duration::from_millis(301);
    driver.submit(set(HIGH, 1), LONG);
    assert!(driver.replaced.is_empty(), "the caller's thread would tell its engine");
    driver.pass(Duration::ZERO);
    assert_eq!((driver.replaced.len(), driver.streams.contains_key(&b)), (1, true));
}

#[test]
fn calls_without_a_map_fail_when_no_seed_answers() {
    let mut driver = cluster();
    let call = driver.submit(set(LOW, 1), LONG);
    driver.refuse_at("a");
    assert_eq!(driver.outcomes(), []);
    driver.refuse_at("b");
    assert_eq!(driver.outcomes(), [(call, Err((Kind::Unreachable, Applied::No)))]);
}

#[test]
fn an_older_node_is_asked_by_the_older_command() {
    let mut driver = cluster();
    driver.input(Input::Open);
    let id = greets(&mut driver, "a");
    driver.says(id, "-ERR unknown subcommand 'SHARDS'\r\n$0\r\n\r\n");
    let id = accepts(&mut driver, "a");
    assert!(driver.commands(id).contains(&"CLUSTER SLOTS".to_owned()));
    driver.says(id, map(&HALVES) + "$0\r\n\r\n");
    greets(&mut driver, "a");
    assert_eq!(driver.opened, [Ok(())]);
}
