//! The fleets of the kit, with the installed server program. Each test prints how long the verbs take.

use std::time::{Duration, Instant};

use leasehold_testkit::fleets::{Cluster, ClusterOptions, MinReplicas, SentinelOptions, Sentinels, User};
use leasehold_testkit::servers::{RedisServer, Reply};
use leasehold_testkit::wait::eventually;

const SOON: Duration = Duration::from_secs(20);

#[allow(clippy::disallowed_methods, clippy::print_stdout, reason = "the test prints how long a verb takes")]
fn timed<T>(verb: &str, act: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = act();
    println!("{verb}: {:.2} s", started.elapsed().as_secs_f64());
    result
}

fn set(fleet: &Sentinels, node: usize, key: &str) -> Result<Reply, std::io::Error> {
    fleet.nodes()[node].command(&["SET", key, "value"])
}

fn text(text: &str) -> Reply {
    Reply::Text(text.to_owned())
}

/// Waits until so many replicas of a master have all of its writes until now. A `WAIT` would wait for the writes of its own
/// connection alone, and each command of the kit has one of its own.
fn wait_until_replicated(master: &RedisServer, replicas: usize) {
    let info = || master.command(&["INFO", "replication"]).unwrap().text().to_owned();
    let offset = |text: &str, field: &str| -> Option<u64> {
        let (_, rest) = text.split_once(field)?;
        rest.split(|end: char| !end.is_ascii_digit()).next()?.parse().ok()
    };
    let written = offset(&info(), "master_repl_offset:").unwrap();
    eventually(SOON, "the replicas to have the writes", || {
        let info = info();
        let have = |line: &&str| line.starts_with("slave") && offset(line, ",offset=") >= Some(written);
        info.lines().filter(have).count() == replicas
    });
}

#[test]
fn sentinels_replace_a_killed_master_which_returns_as_a_replica() {
    let mut fleet = timed("start", Sentinels::start);
    assert_eq!(fleet.master(), 0);
    assert_eq!(fleet.replicas(), [1, 2]);
    assert_eq!(set(&fleet, 0, "key").unwrap(), text("OK"));
    wait_until_replicated(&fleet.nodes()[0], 2);
    fleet.kill(0);
    timed("failover after a kill", || fleet.wait_until_settled());
    let master = fleet.master();
    assert_ne!(master, 0);
    assert_eq!(fleet.nodes()[master].command(&["GET", "key"]).unwrap(), text("value"));
    timed("return of the old master", || {
        fleet.restart(0);
        eventually(SOON, "the old master to be a replica", || fleet.is_settled());
    });
    assert!(fleet.replicas().contains(&0));
    assert!(set(&fleet, 0, "key").unwrap_err().to_string().starts_with("READONLY"));
}

#[test]
fn a_frozen_master_resumes_in_its_old_role_until_the_sentinels_demote_it() {
    let fleet = Sentinels::start();
    fleet.freeze(0);
    timed("failover after a freeze", || fleet.wait_until_settled());
    assert_ne!(fleet.master(), 0);
    fleet.resume(0);
    timed("demotion of the resumed master", || fleet.wait_until_settled());
    assert!(set(&fleet, 0, "key").unwrap_err().to_string().starts_with("READONLY"));
}

#[test]
fn a_failover_by_hand_can_be_repeated() {
    let fleet = Sentinels::start();
    let first = timed("failover by hand", || fleet.failover());
    assert_ne!(first, 0);
    timed("settling", || fleet.wait_until_settled());
    let second = timed("second failover by hand", || fleet.failover());
    assert_ne!(second, first);
    fleet.wait_until_settled();
}

#[test]
fn a_node_promoted_by_hand_is_made_a_replica_again() {
    let fleet = Sentinels::start();
    fleet.promote(1);
    assert_eq!(set(&fleet, 1, "astray").unwrap(), text("OK"));
    assert!(!fleet.is_settled());
    timed("demotion", || fleet.wait_until_settled());
    assert_eq!(fleet.nodes()[1].command(&["GET", "astray"]).unwrap(), Reply::Nil);
}

#[test]
fn a_node_restarts_with_its_data_or_without() {
    let mut fleet = Sentinels::start();
    assert_eq!(set(&fleet, 0, "key").unwrap(), text("OK"));
    timed("restart", || fleet.restart(0));
    assert_eq!(fleet.nodes()[0].command(&["GET", "key"]).unwrap(), text("value"));
    fleet.wait_until_settled();
    // Without sentinels, no failover races the restart.
    for sentinel in 0..3 {
        fleet.freeze_sentinel(sentinel);
    }
    let master = (0..3).find(|&node| set(&fleet, node, "key").is_ok()).unwrap();
    timed("restart without data", || fleet.restart_empty(master));
    assert_eq!(fleet.nodes()[master].command(&["GET", "key"]).unwrap(), Reply::Nil);
}

#[test]
fn two_sentinels_of_three_still_replace_a_master() {
    let mut fleet = Sentinels::start();
    fleet.kill_sentinel(0);
    fleet.kill(0);
    fleet.wait_until_settled();
    assert_ne!(fleet.master(), 0);
    fleet.restart_sentinel(0);
    timed("return of a sentinel", || fleet.wait_until_settled());
}

#[test]
fn passwords_and_users_protect_every_server_of_a_sentinel_fleet() {
    let user = User { rules: "~lock:* +get".into(), ..User::unlimited("app", "word") };
    let options = SentinelOptions {
        password: Some("secret".into()),
        user: Some(user),
        sentinel_password: Some("watch".into()),
        min_replicas: Some(MinReplicas { to_write: 1, max_lag_s: 1 }),
        ..SentinelOptions::default()
    };
    let mut fleet = timed("start with passwords", || Sentinels::with(options));
    let (url, ports) = (fleet.url(), fleet.sentinels().iter().map(|one| format!("127.0.0.1:{}", one.port())));
    let hosts = ports.collect::<Vec<_>>().join(",");
    assert_eq!(url, format!("redis+sentinel://app:word@{hosts}/leasehold?sentinel_password=watch"));
    let login = |node: usize, command: &[&str]| {
        let words = ["--user", "app", "--pass", "word", "--no-auth-warning"];
        fleet.nodes()[node].cli(&[&words[..], command].concat())
    };
    assert_eq!(login(0, &["GET", "lock:a"]), "");
    assert!(login(0, &["GET", "other"]).starts_with("NOPERM"), "{}", login(0, &["GET", "other"]));
    fleet.kill(0);
    fleet.wait_until_settled();
    let master = fleet.master();
    fleet.restart(0);
    fleet.wait_until_settled();
    fleet.freeze(fleet.replicas()[0]);
    fleet.freeze(fleet.replicas()[0]);
    eventually(SOON, "the master to refuse writes without replicas", || {
        set(&fleet, master, "key").is_err_and(|error| error.to_string().starts_with("NOREPLICAS"))
    });
}

#[test]
fn a_cluster_replaces_a_killed_master_which_returns_as_a_replica() {
    let mut cluster = timed("start of a cluster", || Cluster::start(3, 1));
    assert_eq!((cluster.masters(), cluster.replicas_of(0)), (vec![0, 1, 2], vec![3]));
    let slot = cluster.slot_of_key("a");
    assert_eq!(slot, 15_495);
    assert_eq!(cluster.node_of_slot(slot), 2);
    assert_eq!(cluster.nodes()[2].command(&["SET", "a", "value"]).unwrap(), text("OK"));
    wait_until_replicated(&cluster.nodes()[2], 1);
    cluster.kill(2);
    timed("failover of a cluster after a kill", || cluster.wait_until_settled());
    assert_eq!(cluster.node_of_slot(slot), 5);
    assert_eq!(cluster.nodes()[5].command(&["GET", "a"]).unwrap(), text("value"));
    timed("return of a node", || {
        cluster.restart(2);
        eventually(SOON, "the node to follow", || cluster.replicas_of(5) == [2]);
    });
    cluster.wait_until_settled();
    cluster.freeze(0);
    timed("failover of a cluster after a freeze", || cluster.wait_until_settled());
    cluster.resume(0);
    timed("return of a frozen node", || {
        eventually(SOON, "the node to follow", || cluster.replicas_of(3) == [0]);
    });
}

#[test]
fn a_replica_of_a_cluster_takes_over_by_hand() {
    let cluster = Cluster::start(3, 1);
    timed("failover by hand", || cluster.failover(3, None));
    cluster.wait_until_settled();
    assert_eq!(cluster.replicas_of(3), [0]);
    timed("failover by force", || cluster.failover(0, Some("FORCE")));
    cluster.wait_until_settled();
    assert_eq!(cluster.node_of_slot(0), 0);
}

#[test]
fn a_slot_moves_in_steps() {
    let cluster = Cluster::start(3, 0);
    let keys = ["{a}1", "{a}2", "{a}3"];
    for key in keys {
        assert_eq!(cluster.nodes()[2].command(&["SET", key, "value"]).unwrap(), text("OK"));
    }
    let slot = cluster.slot_of_key("a");
    let moving = cluster.begin_move(slot, 0);
    assert_eq!(cluster.move_keys(moving, 2), 2);
    let answers = keys.map(|key| cluster.nodes()[2].command(&["GET", key]));
    let asked = answers
        .iter()
        .filter(|answer| answer.as_ref().is_err_and(|error| error.to_string().starts_with("ASK ")));
    assert_eq!(asked.count(), 2);
    let many = cluster.nodes()[2].command(&["MGET", keys[0], keys[1], keys[2]]).unwrap_err();
    assert!(many.to_string().starts_with("TRYAGAIN"), "{many}");
    assert_eq!(cluster.move_keys(moving, 10), 1);
    cluster.finish_move(moving);
    timed("settling after a move", || cluster.wait_until_settled());
    assert_eq!(cluster.node_of_slot(slot), 0);
    assert_eq!(cluster.nodes()[0].command(&["GET", "{a}3"]).unwrap(), text("value"));
    timed("move of a slot", || cluster.move_slot(slot, 1));
    let stopped = cluster.begin_move(0, 1);
    cluster.cancel_move(stopped);
    cluster.wait_until_settled();
    assert_eq!((cluster.node_of_slot(slot), cluster.node_of_slot(0)), (1, 0));
}

#[test]
fn a_cluster_grows_and_shrinks() {
    let mut cluster =
        Cluster::with(ClusterOptions { password: Some("secret".into()), ..ClusterOptions::default() });
    let added = timed("addition of a node", || cluster.add_node());
    assert_eq!(added, 6);
    cluster.move_slot(7, added);
    let replica = timed("addition of a replica", || cluster.add_replica(added));
    cluster.wait_until_settled();
    assert_eq!((cluster.node_of_slot(7), cluster.replicas_of(added)), (added, vec![replica]));
    assert_eq!(cluster.nodes()[0].command(&["SET", "{b}", "value"]).unwrap(), text("OK"));
    timed("removal of a node", || cluster.remove_node(0));
    timed("settling after a removal", || cluster.wait_until_settled());
    assert_eq!(cluster.masters(), [1, 2, added]);
    let slot = cluster.slot_of_key("{b}");
    let heir = cluster.node_of_slot(slot);
    assert_eq!(cluster.nodes()[heir].command(&["GET", "{b}"]).unwrap(), text("value"));
    assert!(cluster.url().starts_with("redis+cluster://:secret@127.0.0.1:"));
}

#[test]
fn all_servers_of_a_fleet_end_with_it() {
    let fleet = Sentinels::start();
    let servers = fleet.nodes().iter().chain(fleet.sentinels());
    let ports: Vec<_> = servers.map(RedisServer::port).collect();
    drop(fleet);
    for port in ports {
        assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
    }
}

#[cfg(feature = "tls")]
mod encrypted {
    use leasehold_testkit::certificates::Authority;
    use leasehold_testkit::servers::Encryption;

    use super::*;

    /// Returns the settings of servers that are nodes of a fleet, and the authority, which keeps the files.
    fn encryption() -> (Authority, Encryption) {
        let authority = Authority::new();
        let encryption = Encryption::new(&authority, &authority.node(&["127.0.0.1"]));
        (authority, encryption)
    }

    #[test]
    fn sentinels_of_an_encrypted_fleet_name_tls_ports_and_replace_a_killed_master() {
        let (_authority, encryption) = encryption();
        let options = SentinelOptions { encryption: Some(encryption), ..SentinelOptions::default() };
        let mut fleet = Sentinels::with(options);
        assert!(fleet.url().starts_with("rediss+sentinel://127.0.0.1:"), "{}", fleet.url());
        let named = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", fleet.service()];
        let named = fleet.sentinels()[0].command(&named).unwrap();
        assert_eq!(named.list()[1].number(), Some(i64::from(fleet.nodes()[0].announced_port())));
        assert_ne!(fleet.nodes()[0].announced_port(), fleet.nodes()[0].port());
        fleet.kill(0);
        fleet.wait_until_settled();
        assert_ne!(fleet.master(), 0);
        fleet.restart(0);
        eventually(SOON, "the old master to be a replica", || fleet.is_settled());
    }

    #[test]
    fn an_encrypted_cluster_moves_a_slot_and_fails_over() {
        let (_authority, encryption) = encryption();
        let mut cluster =
            Cluster::with(ClusterOptions { encryption: Some(encryption), ..ClusterOptions::default() });
        assert!(cluster.url().starts_with("rediss+cluster://127.0.0.1:"), "{}", cluster.url());
        let slot = cluster.slot_of_key("key");
        let from = cluster.node_of_slot(slot);
        assert_eq!(cluster.nodes()[from].command(&["SET", "key", "value"]).unwrap(), text("OK"));
        let to = cluster.masters().into_iter().find(|&other| other != from).unwrap();
        cluster.move_slot(slot, to);
        assert_eq!(cluster.nodes()[to].command(&["GET", "key"]).unwrap(), text("value"));
        cluster.kill(to);
        eventually(SOON, "a replica to take over", || cluster.is_settled());
        let heir = cluster.node_of_slot(slot);
        assert_ne!(heir, to);
    }
}
