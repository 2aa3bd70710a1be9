//! `leasehold doctor` against real servers.

use std::process::Command;

use leasehold_testkit::certificates::Authority;
use leasehold_testkit::fleets::{Cluster, MinReplicas, SentinelOptions, Sentinels};
use leasehold_testkit::servers::{RedisServer, TlsServer};
use leasehold_testkit::sharding_proxy::{Routing, ShardingProxy};
use serde_json::Value;

use crate::fixture::{has_no_subscribers, leasehold, outcome};

/// The settings of a server without a fault.
const HEALTHY: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// An examination, as a program reads it.
struct Examined {
    code: Option<i32>,
    json: Value,
    text: String,
}

impl Examined {
    #[track_caller]
    fn of(program: &mut Command) -> Self {
        let output = program.arg("--json").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        let json = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text} {err}"));
        Self { code: output.status.code(), json, text }
    }

    /// Returns the findings of a check.
    fn findings(&self, check: &str) -> Vec<&Value> {
        let all = self.json["findings"].as_array().unwrap();
        all.iter().filter(|finding| finding["check"] == check).collect()
    }

    /// Returns the verdicts of a check, one per server.
    fn verdicts(&self, check: &str) -> Vec<&str> {
        self.findings(check).iter().map(|finding| finding["verdict"].as_str().unwrap()).collect()
    }
}

/// Returns `leasehold doctor` for this URL.
fn doctor(url: &str) -> Command {
    let mut program = leasehold();
    program.env("LEASEHOLD_URL", url).arg("doctor");
    program
}

fn keys(server: &RedisServer) -> String {
    server.cli(&["DBSIZE"])
}

#[test]
fn a_healthy_server_passes_and_keeps_no_scratch_lock() {
    let server = RedisServer::with(&HEALTHY);
    let examined = Examined::of(&mut doctor(&server.url()));
    assert_eq!(examined.code, Some(0), "{}", examined.text);
    assert_eq!((&examined.json["schema"], &examined.json["verdict"]), (&1.into(), &"pass".into()));
    for check in [
        "reachable",
        "eviction",
        "memory",
        "persistence",
        "fsync",
        "persistence-state",
        "maxclients",
        "timeout",
        "tcp-keepalive",
        "pubsub-buffer",
        "transport",
        "clock",
        "version",
        "replicas",
        "scripts",
        "one-server",
        "rights",
        "latency",
    ] {
        assert_eq!(examined.verdicts(check), ["pass"], "{check} in {}", examined.text);
    }
    let node = format!("127.0.0.1:{}", server.port());
    assert!(examined.findings("latency")[0]["node"] == node.as_str(), "{}", examined.text);
    assert_eq!(keys(&server), "0");
}

#[test]
fn a_proxy_in_front_of_several_servers_is_told_from_one_server() {
    let servers = [RedisServer::with(&HEALTHY), RedisServer::with(&HEALTHY)];
    for (routing, found) in
        [(Routing::FirstKey, "by its first name"), (Routing::RefusesSlots, "names of several slots")]
    {
        let proxy = ShardingProxy::start(&[servers[0].port(), servers[1].port()], routing);
        let examined = Examined::of(&mut doctor(&proxy.url()));
        let one_server = examined.findings("one-server");
        assert_eq!(one_server[0]["verdict"], "warn", "{}", examined.text);
        assert!(one_server[0]["found"].as_str().unwrap().contains(found), "{}", examined.text);
    }
}

#[test]
fn a_server_that_evicts_fails_with_the_command_that_mends_it() {
    let server = RedisServer::with(&[&HEALTHY[..], &["--maxmemory", "100mb"]].concat());
    assert_eq!(server.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]), "OK");
    let output = doctor(&server.url()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("FAIL     eviction: maxmemory-policy is allkeys-lru\n"), "{text}");
    assert!(text.contains("run: CONFIG SET maxmemory-policy noeviction\n"), "{text}");
    assert!(text.ends_with("warnings, 1 failed\n"), "{text}");
}

/// Returns a server with a user of the rights that `leasehold acl ARGUMENTS` prints, and the user's URL.
fn limited(arguments: &[&str]) -> (RedisServer, String) {
    let server = RedisServer::with(&HEALTHY);
    let output = leasehold().arg("acl").args(arguments).output().unwrap();
    let line = String::from_utf8(output.stdout).unwrap().replace("PASSWORD", "canary-9a2f");
    assert_eq!(server.cli(&line.split_whitespace().collect::<Vec<_>>()), "OK");
    let url = format!("redis://leasehold:canary-9a2f@127.0.0.1:{}", server.port());
    (server, url)
}

#[test]
fn a_user_with_the_smallest_rights_learns_what_it_may_not_see() {
    let arguments = ["--prefix", "app:", "--primitives", "lock"];
    let (server, url) = limited(&arguments);
    let examined = Examined::of(doctor(&url).args(arguments));
    assert_eq!((examined.code, &examined.json["verdict"]), (Some(1), &"unknown".into()), "{}", examined.text);
    for check in ["scripts", "latency", "transport", "version", "eviction", "maxclients", "clock"] {
        assert_eq!(examined.verdicts(check), ["pass"], "{check} in {}", examined.text);
    }
    for check in ["timeout", "tcp-keepalive", "rights"] {
        assert_eq!(examined.verdicts(check), ["unknown"], "{check} in {}", examined.text);
        assert!(examined.findings(check)[0]["found"].as_str().unwrap().contains("may not"), "{check}");
    }
    let line = examined.findings("rights")[0]["run"].as_str().unwrap();
    assert!(line.starts_with("ACL SETUSER leasehold ") && line.contains(" ~app:*"), "{line}");
    assert!(!examined.text.contains("canary"), "{}", examined.text);
    assert_eq!(keys(&server), "0");

    // A scratch name outside of the user's names.
    let examined = Examined::of(doctor(&url).args(["--primitives", "lock"]));
    assert_eq!((examined.code, examined.verdicts("scripts")), (Some(2), vec!["fail"]), "{}", examined.text);
}

#[test]
fn the_rights_that_acl_prints_for_a_primitive_suffice_for_the_doctor() {
    for primitive in ["lock", "multi", "plain", "fair", "fenced", "spin", "rw", "redlock", "semaphore"] {
        let arguments = ["--prefix", "app:", "--primitives", primitive];
        let (server, url) = limited(&[&arguments[..], &["--doctor"]].concat());
        let examined = Examined::of(doctor(&url).args(arguments));
        assert_eq!(examined.json["counts"]["fail"], 0, "{primitive}: {}", examined.text);
        let is_timed = primitive != "semaphore";
        let expected = if is_timed { &["pass"][..] } else { &[] };
        assert_eq!(examined.verdicts("latency"), expected, "{primitive}: {}", examined.text);
        assert_eq!(keys(&server), "0", "{primitive}");
    }
}

#[test]
fn the_rights_of_confirmed_calls_are_asked_for() {
    let (server, url) = limited(&["--prefix", "app:", "--primitives", "lock", "--confirmed"]);
    assert_eq!(server.cli(&["ACL", "SETUSER", "leasehold", "+acl"]), "OK");
    let examine = |more: &[&str]| {
        Examined::of(doctor(&url).args(["--prefix", "app:", "--primitives", "lock"]).args(more))
    };
    assert_eq!(examine(&["--confirmed"]).verdicts("rights"), ["pass"]);
    assert_eq!(server.cli(&["ACL", "SETUSER", "leasehold", "-wait"]), "OK");
    assert_eq!(examine(&[]).verdicts("rights"), ["pass"]);
    let examined = examine(&["--confirmed"]);
    assert_eq!(examined.verdicts("rights"), ["fail"], "{}", examined.text);
    let finding = examined.findings("rights")[0].clone();
    assert!(finding["found"].as_str().unwrap().ends_with("lacks +wait"), "{finding}");
    assert!(finding["run"].as_str().unwrap().ends_with(" +info +wait"), "{finding}");
}

#[test]
fn a_native_command_that_the_user_may_not_run_is_warned_of_where_the_server_has_it() {
    let arguments = ["--prefix", "app:", "--primitives", "plain"];
    let (server, url) = limited(&arguments);
    assert_eq!(server.cli(&["ACL", "SETUSER", "leasehold", "+acl"]), "OK");
    let examine = || Examined::of(doctor(&url).args(arguments));
    let examined = examine();
    assert_eq!(examined.verdicts("rights"), ["pass"], "{}", examined.text);
    let has = |command: &str| server.cli(&["COMMAND", "INFO", command]).contains(command);
    let Some(command) = ["delifeq", "delex"].into_iter().find(|command| has(command)) else {
        assert!(examined.findings("native-release").is_empty(), "{}", examined.text);
        return;
    };
    assert_eq!(examined.verdicts("native-release"), ["warn"], "{}", examined.text);
    let run = examined.findings("native-release")[0]["run"].as_str().unwrap().to_owned();
    assert_eq!(run, format!("ACL SETUSER leasehold +{command}"));
    assert_eq!(server.cli(&run.split(' ').collect::<Vec<_>>()), "OK");
    assert_eq!(examine().verdicts("native-release"), ["pass"]);
}

#[test]
fn missing_rights_are_found_by_a_user_that_may_ask() {
    let arguments = ["--prefix", "app:"];
    let (server, url) = limited(&arguments);
    assert_eq!(server.cli(&["ACL", "SETUSER", "leasehold", "+acl"]), "OK");
    let examined = Examined::of(doctor(&url).args(arguments));
    assert_eq!(examined.verdicts("rights"), ["pass"], "{}", examined.text);
    assert_eq!(server.cli(&["ACL", "SETUSER", "leasehold", "-zadd", "resetchannels"]), "OK");
    let examined = Examined::of(doctor(&url).args(arguments));
    assert_eq!((examined.code, examined.verdicts("rights")), (Some(2), vec!["fail"]), "{}", examined.text);
    let found = examined.findings("rights")[0]["found"].as_str().unwrap();
    assert!(found.contains("+zadd") && found.contains("&redisson_lock__channel:{app:*}"), "{found}");
    assert!(!found.contains("+zrem") && !found.contains(" ~"), "{found}");
}

#[test]
fn each_server_behind_sentinels_is_examined() {
    let min_replicas = Some(MinReplicas { to_write: 1, max_lag_s: 1 });
    let options = SentinelOptions { min_replicas, down_after_ms: 3000, ..SentinelOptions::default() };
    let mut fleet = Sentinels::with(options);
    let examined = Examined::of(&mut doctor(&fleet.url()));
    for (check, verdicts) in [
        ("sentinel", &["pass"; 3][..]),
        ("sentinel-quorum", &["pass"]),
        ("sentinel-agreement", &["pass"]),
        ("sentinel-url", &["pass"]),
        ("reachable", &["pass"; 3]),
        ("replicas", &["pass"]),
        ("min-replicas", &["pass"]),
        ("latency", &["pass"]),
        ("eviction", &["pass"; 3]),
    ] {
        assert_eq!(examined.verdicts(check), verdicts, "{check} in {}", examined.text);
    }
    let master = &fleet.nodes()[fleet.master()];
    assert_eq!(master.cli(&["CONFIG", "SET", "min-replicas-max-lag", "10"]), "OK");
    fleet.kill_sentinel(0);
    fleet.kill_sentinel(1);
    let examined = Examined::of(&mut doctor(&fleet.url()));
    assert_eq!(examined.code, Some(2), "{}", examined.text);
    assert_eq!(examined.verdicts("sentinel"), ["fail", "fail", "pass"]);
    assert_eq!(examined.verdicts("sentinel-quorum"), ["fail"], "{}", examined.text);
    assert_eq!(examined.verdicts("min-replicas"), ["warn"], "{}", examined.text);
}

#[test]
fn sentinels_that_the_url_does_not_name_are_found_and_asked() {
    let mut fleet = Sentinels::start();
    let by_name = Examined::of(&mut doctor(&fleet.url().replace("127.0.0.1", "localhost")));
    assert_eq!(by_name.verdicts("sentinel-url"), ["pass"], "{}", by_name.text);
    let address = |index: usize| format!("127.0.0.1:{}", fleet.sentinels()[index].announced_port());
    let (named, others) = (address(0), [address(1), address(2)]);
    let url = format!("redis+sentinel://{named}/{}", fleet.service());
    let examined = Examined::of(&mut doctor(&url));
    assert_eq!(examined.verdicts("sentinel-url"), ["warn"], "{}", examined.text);
    assert_eq!(examined.verdicts("sentinel"), ["pass"; 3], "{}", examined.text);
    let found = examined.findings("sentinel-url")[0]["found"].as_str().unwrap();
    assert!(others.iter().all(|other| found.contains(other)) && !found.contains(&named), "{found}");
    fleet.kill_sentinel(1);
    let examined = Examined::of(&mut doctor(&url));
    let of_killed = examined.findings("sentinel").into_iter().find(|finding| finding["node"] == others[0]);
    assert_eq!(of_killed.unwrap()["verdict"], "warn", "{}", examined.text);
}

#[test]
fn each_node_of_a_cluster_is_examined_and_each_master_timed() {
    let mut cluster = Cluster::start(3, 1);
    let examined = Examined::of(&mut doctor(&cluster.url()));
    for (check, count) in [
        ("reachable", 6),
        ("cluster-coverage", 3),
        ("sharded-pubsub", 3),
        ("replicas", 3),
        ("scripts", 3),
        ("latency", 3),
        ("rights", 3),
        ("clock", 6),
    ] {
        assert_eq!(examined.verdicts(check), vec!["pass"; count], "{check} in {}", examined.text);
    }
    assert_eq!(examined.verdicts("min-replicas"), ["warn"; 3], "{}", examined.text);
    for master in cluster.masters() {
        assert_eq!(keys(&cluster.nodes()[master]), "0");
    }
    let replica = cluster.replicas_of(0)[0];
    cluster.kill(replica);
    cluster.kill(0);
    let examined = Examined::of(&mut doctor(&cluster.url()));
    assert_eq!(examined.code, Some(2), "{}", examined.text);
    assert!(examined.verdicts("reachable").contains(&"fail"), "{}", examined.text);
}

#[test]
fn an_encrypted_server_is_examined_by_its_certificate() {
    let authority = Authority::new();
    let server = TlsServer::start(&authority, &authority.server(&["localhost", "127.0.0.1"]), false);
    let examined = Examined::of(doctor(&server.tls_url()).args(["--ca-file", authority.file()]));
    assert_eq!(examined.verdicts("latency"), ["pass"], "{}", examined.text);
    assert_eq!(examined.verdicts("transport"), ["warn"], "{}", examined.text);
    let examined = Examined::of(&mut doctor(&server.tls_url()));
    assert_eq!((examined.code, examined.verdicts("reachable")), (Some(2), vec!["fail"]), "{}", examined.text);
    assert!(examined.text.contains("certificate"), "{}", examined.text);
}

#[test]
fn a_configuration_gives_the_doctor_its_certificates_and_its_password_file() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("leasehold.toml");
    let examined = |text: String| {
        std::fs::write(&config, text).unwrap();
        Examined::of(leasehold().env_remove("LEASEHOLD_URL").arg("doctor").arg("--config").arg(&config))
    };

    let password = folder.path().join("password");
    std::fs::write(&password, "canary-7c1d\n").unwrap();
    let password_file = format!("password_file = '{}'", password.display());

    let authority = Authority::new();
    let server = TlsServer::start(&authority, &authority.server(&["localhost", "127.0.0.1"]), true);
    assert_eq!(server.cli(&["CONFIG", "SET", "requirepass", "canary-7c1d"]), "OK");
    let client = authority.client();
    let url = server.tls_url();
    let address = url.trim_start_matches("rediss://").trim_end_matches('/');
    let (ca, certificate, key) = (authority.file(), client.certificate_file(), client.key_file());
    let tls = format!("ca_file = '{ca}'\ncertificate_file = '{certificate}'\nkey_file = '{key}'");
    let login = format!("address = '{address}'\n{password_file}");
    let found = examined(format!("[standalone]\n{login}\n[standalone.tls]\n{tls}\n"));
    for check in ["latency", "transport"] {
        assert_eq!(found.verdicts(check), ["pass"], "{check} in {}", found.text);
    }

    let server = RedisServer::with(&["--requirepass", "canary-7c1d"]);
    let url = server.url();
    let address = url.trim_start_matches("redis://").trim_end_matches('/');
    let login = format!("address = '{address}'\n{password_file}");
    let found = examined(format!("[standalone]\n{login}\n"));
    assert_eq!(found.verdicts("latency"), ["pass"], "{}", found.text);
    assert!(!found.text.contains("canary"), "{}", found.text);
}

#[test]
fn the_doctor_checks_the_rights_that_the_configuration_needs() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("leasehold.toml");
    let server = RedisServer::start();
    let line = outcome(leasehold().args(["acl", "--prefix", "shop:"])).out;
    let user: Vec<&str> = line.split_whitespace().chain(["+acl|whoami", "+acl|dryrun"]).collect();
    assert_eq!(server.cli(&user), "OK");
    let url = server.url().replace("redis://", "redis://leasehold:PASSWORD@");
    let examined = |more: &str| {
        std::fs::write(&config, format!("url = '{url}'\n{more}\n")).unwrap();
        Examined::of(leasehold().env_remove("LEASEHOLD_URL").arg("doctor").arg("--config").arg(&config))
    };
    for (settings, scripts, rights) in [
        ("key_prefix = 'shop:'", "pass", "pass"),
        ("key_prefix = 'other:'", "fail", "fail"),
        ("key_prefix = 'shop:'\nlock.replicas = 1", "pass", "fail"),
    ] {
        let found = examined(settings);
        assert_eq!(
            (found.verdicts("scripts"), found.verdicts("rights")),
            (vec![scripts], vec![rights]),
            "{}",
            found.text
        );
    }
}

#[test]
fn an_unreachable_server_fails_and_a_wrong_url_is_a_usage_error() {
    let url = has_no_subscribers().replace("redis://", "redis://:canary-9a2f@");
    let examined = Examined::of(&mut doctor(&url));
    assert_eq!((examined.code, examined.verdicts("reachable")), (Some(2), vec!["fail"]), "{}", examined.text);
    assert!(examined.json["urls"][0].as_str().unwrap().starts_with("redis://:***@"), "{}", examined.text);
    assert!(!examined.text.contains("canary"), "{}", examined.text);
    for url in ["nonsense://h", "memory://"] {
        let output = doctor(url).output().unwrap();
        assert_eq!(output.status.code(), Some(64), "{output:?}");
    }
}

#[test]
fn a_user_with_the_rights_that_acl_prints_for_it_leaves_nothing_unknown() {
    let server = RedisServer::with(&HEALTHY);
    for (arguments, user, unknown) in
        [(&[][..], "leasehold", true), (&["--doctor", "--user", "examiner"], "examiner", false)]
    {
        let line =
            outcome(leasehold().args(["acl", "--primitives", "lock", "--prefix", "app:"]).args(arguments))
                .out;
        let line = line.replace("PASSWORD", "word");
        assert_eq!(server.cli(&line.split_whitespace().collect::<Vec<_>>()), "OK", "{line}");
        let url = server.url().replace("redis://", &format!("redis://{user}:word@"));
        let mut program = doctor(&url);
        let examined = Examined::of(program.args(["--primitives", "lock", "--prefix", "app:"]));
        assert_eq!(examined.json["counts"]["unknown"] != 0, unknown, "{arguments:?}: {}", examined.text);
    }
}
