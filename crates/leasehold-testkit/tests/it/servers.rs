//! The servers of the kit, with the installed server program.

use std::net::TcpStream;
use std::time::Duration;

use leasehold_testkit::servers::{Monitor, RedisServer};
use leasehold_testkit::wait::eventually;

const SOON: Duration = Duration::from_secs(20);

#[test]
fn a_started_server_answers_and_keeps_nothing_on_disk() {
    let server = RedisServer::start();
    assert_eq!(server.cli(&["PING"]), "PONG");
    assert_eq!(server.cli(&["CONFIG", "GET", "appendonly"]), "appendonly\nno");
    assert_eq!(server.cli(&["CONFIG", "GET", "save"]), "save");
    assert_eq!(server.url(), format!("redis://127.0.0.1:{}", server.port()));
}

#[test]
fn debugging_commands_are_allowed() {
    assert_eq!(RedisServer::start().cli(&["DEBUG", "SLEEP", "0"]), "OK");
}

#[test]
fn arguments_reach_the_server() {
    let server = RedisServer::with(&["--maxmemory", "3mb"]);
    assert_eq!(server.cli(&["CONFIG", "GET", "maxmemory"]), "maxmemory\n3145728");
}

#[test]
#[should_panic(expected = "its log")]
fn a_server_that_does_not_start_shows_its_log() {
    let _ = RedisServer::with(&["--no-such-setting", "1"]);
}

#[test]
fn the_test_kit_uses_the_password() {
    let server = RedisServer::with(&["--requirepass", "secret"]);
    assert_eq!(server.cli(&["SET", "key", "value"]), "OK");
    assert_eq!(server.commandstats()["set"], 1);
    assert_eq!(server.url_with_password(), format!("redis://:secret@127.0.0.1:{}", server.port()));
}

#[test]
fn a_cluster_serves_all_slots_and_reports_them() {
    let cluster = RedisServer::cluster();
    assert_eq!(cluster.cli(&["SET", "key", "value"]), "OK");
    let slots = cluster.cli(&["CLUSTER", "SLOTS"]);
    let first: Vec<_> = slots.lines().take(4).collect();
    assert_eq!(first, ["0", "16383", "127.0.0.1", &cluster.port().to_string()]);
}

#[test]
fn a_killed_server_refuses_and_a_restarted_one_has_lost_its_data() {
    let mut server = RedisServer::start();
    let (port, first) = (server.port(), server.pid());
    assert_eq!(server.cli(&["SET", "key", "value"]), "OK");
    server.kill();
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    server.restart();
    assert_eq!((server.port(), server.cli(&["GET", "key"])), (port, String::new()));
    assert_ne!(server.pid(), first);
}

#[test]
fn a_restarted_server_keeps_its_data_when_configured() {
    let mut server = RedisServer::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    assert_eq!(server.cli(&["SET", "key", "value"]), "OK");
    server.restart();
    assert_eq!(server.cli(&["GET", "key"]), "value");
}

#[test]
fn a_frozen_server_answers_once_it_is_thawed() {
    let server = RedisServer::start();
    server.freeze();
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| server.cli(&["PING"]));
        server.thaw();
        assert_eq!(asked.join().unwrap(), "PONG");
    });
}

#[test]
fn a_frozen_server_can_be_killed_and_dropped() {
    let mut server = RedisServer::start();
    server.freeze();
    server.kill();
    server.restart();
    let port = server.port();
    server.freeze();
    drop(server);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn calls_are_counted_per_command() {
    let server = RedisServer::start();
    server.reset_stats();
    for _ in 0..3 {
        assert_eq!(server.cli(&["EVAL", "return redis.call('INCR', 'n')", "0"]).len(), 1);
    }
    let calls = server.commandstats();
    assert_eq!((calls["eval"], calls["incr"], calls.get("get")), (3, 3, None));
}

#[test]
fn a_monitor_records_every_answered_command() {
    let server = RedisServer::start();
    let monitor = Monitor::start(&server);
    assert_eq!(monitor.commands(), Vec::<Vec<String>>::new());
    assert_eq!(server.cli(&["SET", "key", "a \"b\""]), "OK");
    assert_eq!(server.cli(&["EVAL", "return redis.call('GET', 'key')", "0"]), "a \"b\"");
    assert_eq!(
        monitor.commands(),
        [vec!["SET", "key", "a \"b\""], vec!["EVAL", "return redis.call('GET', 'key')", "0"]]
    );
    assert!(monitor.lines().iter().any(|line| line.contains(" lua] \"GET\"")), "{:?}", monitor.lines());
}

#[test]
fn twenty_servers_start_at_once() {
    std::thread::scope(|scope| {
        let servers: Vec<_> = (0..20).map(|_| scope.spawn(RedisServer::start)).collect();
        let mut ports: Vec<_> = servers.into_iter().map(|server| server.join().unwrap().port()).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 20);
    });
}

/// Not a test by itself. The next test runs it in a process of its own, and kills that process.
#[test]
fn a_process_that_waits_to_be_killed() {
    let Some(told) = std::env::var_os("LEASEHOLD_TESTKIT_TELL") else {
        return;
    };
    let server = RedisServer::start();
    let other = RedisServer::start();
    other.freeze();
    std::fs::write(&told, format!("{} {}", server.port(), other.port())).unwrap();
    eventually(SOON, "the end", || false);
}

#[test]
fn servers_end_with_a_test_process_that_was_killed() {
    let told = std::env::temp_dir().join(format!("leasehold-tell-{}", std::process::id()));
    let mut process = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "servers::a_process_that_waits_to_be_killed"])
        .env("LEASEHOLD_TESTKIT_TELL", &told)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut ports = Vec::new();
    eventually(SOON, "the servers of the process", || {
        let text = std::fs::read_to_string(&told).unwrap_or_default();
        ports = text.split(' ').filter_map(|port| port.parse::<u16>().ok()).collect();
        ports.len() == 2
    });
    process.kill().unwrap();
    process.wait().unwrap();
    for port in ports {
        eventually(SOON, "the end of the server", || TcpStream::connect(("127.0.0.1", port)).is_err());
    }
    std::fs::remove_file(&told).unwrap();
}
