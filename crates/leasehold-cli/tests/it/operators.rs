//! The verbs for operators against real servers: list, show, clients, watch, release and repair.

use std::process::Command;
use std::time::Duration;

use leasehold::{Client, ClientBuilder};
use leasehold_testkit::fleets::{Cluster, SentinelOptions, Sentinels};
use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::eventually;
use serde_json::Value;

use crate::fixture::{LIMIT, Outcome, Running, leasehold, outcome};
use crate::pty::Session;
use crate::schema::Schema;

/// The owner of a hold that a Java client has.
pub(crate) const JAVA: &str = "7f2a9c1e-0000-4000-8000-000000000001:57";

/// Returns `leasehold WORDS` against this server.
pub(crate) fn operator(url: &str, words: &[&str]) -> Command {
    let mut program = leasehold();
    program.env("LEASEHOLD_URL", url).args(words);
    program
}

#[track_caller]
pub(crate) fn done(url: &str, words: &[&str], code: i32) -> String {
    let outcome = outcome(&mut operator(url, words));
    assert_eq!(outcome.code(), code, "{words:?}: {} {}", outcome.out, outcome.err);
    outcome.out
}

#[track_caller]
pub(crate) fn json(url: &str, words: &[&str], code: i32) -> Value {
    let out = done(url, &[words, &["--json"]].concat(), code);
    let value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"));
    if words[0] != "release" {
        Schema::of_listings().check(&value);
    }
    value
}

/// Returns the object of this name in a listing.
#[track_caller]
pub(crate) fn object<'a>(listing: &'a Value, name: &str) -> &'a Value {
    let objects = listing["objects"].as_array().unwrap();
    objects.iter().find(|object| object["name"] == name).unwrap_or_else(|| panic!("no {name} in {listing}"))
}

fn warnings(object: &Value) -> Vec<&str> {
    let warnings = object["warnings"].as_array().unwrap();
    warnings.iter().map(|warning| warning["name"].as_str().unwrap()).collect()
}

/// Writes a hold as Redisson writes it.
pub(crate) fn java_hold(server: &RedisServer, name: &str, owner: &str) {
    assert_eq!(server.cli(&["HSET", name, owner, "1"]), "1");
    assert_eq!(server.cli(&["PEXPIRE", name, "60000"]), "1");
}

/// A client of the library that operators see.
pub(crate) async fn client(url: &str, change: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Client {
    change(Client::builder().client_name("orders")).connect(url).await.unwrap()
}

/// The lease with which a client is visible from its first hold on.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Runs a command of the program on a thread of its own, so that clients of the test go on.
pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

/// Waits until so many clients have a card and listen.
pub(crate) async fn until_visible(url: &str, clients: u64) {
    let url = url.to_owned();
    aside(move || {
        eventually(LIMIT, "visible clients", || {
            let outcome = outcome(&mut operator(&url, &["clients", "--json"]));
            let seen: Value = serde_json::from_str(&outcome.out).unwrap_or_default();
            seen["sources"]["clients"]["answered"] == clients
        });
    })
    .await;
}

#[test]
fn what_redisson_holds_is_listed_by_a_scan_and_other_hashes_are_not() {
    let server = RedisServer::start();
    java_hold(&server, "java:lock", JAVA);
    java_hold(&server, "java:écrit", &format!("{JAVA}:write"));
    assert_eq!(server.cli(&["HSET", "java:écrit", "mode", "write"]), "1");
    let _ = server.cli(&["HSET", "user:7", "name", "Anna", "mail", "anna@example.org"]);
    let _ = server.cli(&["SET", "redlock", "random", "PX", "60000"]);
    let _ = server.cli(&["SET", "visits", "7"]);
    let listing = json(&server.url(), &["list"], 0);
    assert_eq!(listing["objects"].as_array().unwrap().len(), 2, "{listing}");
    let lock = object(&listing, "java:lock");
    assert_eq!((&lock["kind"], &lock["holders"][0]["owner"]), (&"lock".into(), &JAVA.into()));
    assert_eq!(lock["holders"][0]["age_ms"], Value::Null, "Redisson does not say since when");
    assert!(lock["holders"][0]["lease_ms"].as_u64().unwrap() <= 60_000);
    let side = object(&listing, "java:écrit");
    assert_eq!((&side["kind"], &side["holders"][0]["side"]), (&"read-write lock".into(), &"write".into()));
    assert_eq!(listing["sources"]["scan"]["done"], true);
    let table = done(&server.url(), &["list"], 0);
    assert!(table.contains("7f2a9c1e… thread 57") && table.contains("0 of 0 clients answered"), "{table}");
    let without = json(&server.url(), &["list", "--no-scan"], 0);
    assert_eq!(without["objects"].as_array().unwrap().len(), 0, "without a scan nobody tells of them");
}

#[test]
fn a_text_of_another_library_is_shown_and_named() {
    let server = RedisServer::start();
    let _ = server.cli(&["SET", "redlock", "random", "PX", "60000"]);
    let text = done(&server.url(), &["show", "redlock"], 0);
    assert!(text.contains("redlock  string") && text.contains("\"random\""), "{text}");
    let outcome = outcome(&mut operator(&server.url(), &["release", "redlock", "--yes"]));
    assert_eq!(outcome.code(), 64, "{}", outcome.err);
    assert_eq!(server.cli(&["GET", "redlock"]), "random");
}

#[test]
fn a_free_name_is_not_shown() {
    let server = RedisServer::start();
    let outcome = outcome(&mut operator(&server.url(), &["show", "nothing"]));
    assert_eq!((outcome.code(), outcome.out.as_str()), (1, ""));
    assert!(outcome.err.contains("is free"), "{}", outcome.err);
    done(&server.url(), &["release", "nothing", "--yes"], 1);
}

#[tokio::test]
async fn a_hold_of_the_library_has_its_process_its_age_and_its_note() {
    let server = RedisServer::start();
    let url = server.url();
    let client = client(&url, |builder| builder.label("version", "1.2")).await;
    let lock = client.lock("order:42").lease(LONG).note("import of 2026-11-26");
    let guard = lock.lock().await.unwrap();
    let waiter = tokio::spawn({
        let other = self::client(&url, |builder| builder).await;
        async move { other.lock("order:42").lock().await.unwrap().release().await }
    });
    until_visible(&url, 2).await;
    let listing = aside({
        let url = url.clone();
        move || json(&url, &["list"], 0)
    })
    .await;
    let seen = object(&listing, "order:42");
    let holder = &seen["holders"][0];
    assert_eq!(holder["owner"], guard.wire_owner().to_string());
    assert_eq!(holder["process"]["name"], "orders");
    assert_eq!(holder["process"]["pid"], std::process::id());
    assert_eq!((&holder["age_is"], &holder["note"]), (&"exact".into(), &"import of 2026-11-26".into()));
    assert_eq!(holder["renewed"], false);
    assert_eq!((&seen["waiting"]["tasks"], &seen["waiting"]["clients"]), (&1.into(), &1.into()));
    let text = aside({
        let url = url.clone();
        move || done(&url, &["show", "order:42"], 0)
    })
    .await;
    for part in
        ["orders@", "note: import of 2026-11-26", "version 1.2", "1 acquire, 1 client", "its process answers"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_that_stands_still_is_silent_and_named() {
    let server = RedisServer::start();
    let url = server.url();
    let mut program = operator(&url, &["run", "--lease", "60s", "slow", "--", "sleep", "60"]);
    let holder = aside(move || Running::start(&mut program)).await;
    eventually(LIMIT, "the holder", || server.cli(&["EXISTS", "slow"]) == "1");
    // A waiter is visible from the start, and this holder from its first renewal.
    let mut program = operator(&url, &["run", "slow", "--", "true"]);
    let waiter = aside(move || Running::start(&mut program)).await;
    until_visible(&url, 1).await;
    waiter.signal(nix::sys::signal::Signal::SIGSTOP);
    let listing = aside({
        let url = url.clone();
        move || json(&url, &["list"], 3)
    })
    .await;
    assert_eq!(listing["sources"]["clients"]["silent"][0]["process"]["pid"], waiter.pid().as_raw());
    assert_eq!(listing["complete"], false);
    let table = aside({
        let url = url.clone();
        move || done(&url, &["clients"], 3)
    })
    .await;
    assert!(table.contains("silent") && table.contains("0 of 1 clients answered"), "{table}");
    waiter.signal(nix::sys::signal::Signal::SIGCONT);
    drop((holder, waiter));
}

#[test]
fn warnings_are_listed_and_are_an_exit_code() {
    let server = RedisServer::start();
    java_hold(&server, "fine", JAVA);
    assert_eq!(server.cli(&["HSET", "damaged", JAVA, "1"]), "1");
    let listing = json(&server.url(), &["list", "--warnings"], 1);
    assert_eq!(warnings(object(&listing, "damaged")), ["no-expiry"]);
    assert_eq!(listing["objects"].as_array().unwrap().len(), 1);
    assert_eq!(server.cli(&["DEL", "damaged"]), "1");
    done(&server.url(), &["list", "--warnings"], 0);
}

#[tokio::test]
async fn two_processes_that_wait_for_each_other_are_a_possible_cycle() {
    let server = RedisServer::start();
    let url = server.url();
    let (one, other) = (client(&url, |builder| builder).await, client(&url, |builder| builder).await);
    let _a = one.lock("a").lease(LONG).lock().await.unwrap();
    let _b = other.lock("b").lease(LONG).lock().await.unwrap();
    let waits = [
        tokio::spawn(async move { one.lock("b").lock().await }),
        tokio::spawn(async move { other.lock("a").lock().await }),
    ];
    let seen = aside(move || {
        eventually(LIMIT, "both wait", || {
            let listing = json(&url, &["list", "--no-scan", "--match", "*"], 0);
            let objects = listing["objects"].as_array().unwrap();
            objects.iter().filter(|object| object["waiting"]["tasks"] == 1).count() == 2
        });
        let listing = json(&url, &["list", "--warnings"], 1);
        assert_eq!(warnings(object(&listing, "a")), ["process-cycle"]);
        (json(&url, &["show", "a"], 0), done(&url, &["show", "a"], 0))
    });
    let (listing, text) = seen.await;
    let chain: Vec<_> = listing["objects"][0]["chain"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["waits_for"].clone())
        .collect();
    assert_eq!(chain, ["b", "a"]);
    assert!(text.contains("waits for \"b\"") && text.contains("held by orders@"), "{text}");
    waits.iter().for_each(tokio::task::JoinHandle::abort);
}

#[test]
fn a_large_database_is_scanned_on_request_only() {
    let server = RedisServer::start();
    java_hold(&server, "java", JAVA);
    let fill = "for at = 1, 200000 do redis.call('set', 'key:' .. at, '1') end";
    let _ = server.cli(&["EVAL", fill, "0"]);
    let listing = json(&server.url(), &["list"], 3);
    assert_eq!(listing["objects"].as_array().unwrap().len(), 0);
    assert_eq!(listing["sources"]["scan"]["done"], false);
    assert!(done(&server.url(), &["list"], 3).contains("the 200001 keys were not scanned"));
    let scanned = json(&server.url(), &["list", "--scan", "--pace", "50%"], 0);
    assert_eq!(object(&scanned, "java")["kind"], "lock");
}

#[test]
fn every_hold_of_many_clients_is_listed_with_all() {
    let server = RedisServer::start();
    for number in 0..300 {
        java_hold(&server, &format!("job:{number:03}"), JAVA);
    }
    let few = json(&server.url(), &["list"], 0);
    assert_eq!((few["objects"].as_array().unwrap().len(), &few["omitted"]), (50, &250.into()));
    let all = json(&server.url(), &["list", "--all", "--sort", "name"], 0);
    let names: Vec<_> =
        all["objects"].as_array().unwrap().iter().map(|object| object["name"].as_str().unwrap()).collect();
    assert!(names.len() == 300 && names.is_sorted());
    let some = json(&server.url(), &["list", "--match", "job:00?"], 0);
    assert_eq!(some["objects"].as_array().unwrap().len(), 10);
    assert_eq!(
        json(&server.url(), &["list", "--kind", "fair lock"], 0)["objects"].as_array().unwrap().len(),
        0
    );
}

#[test]
fn a_listing_fits_sixty_columns() {
    let server = RedisServer::start();
    for name in ["a:name:that:is:much:longer:than:a:narrow:terminal:has:room:for", "short"] {
        java_hold(&server, name, JAVA);
    }
    let script = format!("stty cols 60; {} list; echo done", env!("CARGO_BIN_EXE_leasehold"));
    let mut session =
        Session::start(&["sh", "-c", &script], &[("LEASEHOLD_URL", &server.url()), ("NO_COLOR", "1")]);
    let screen = session.until("done");
    let table: Vec<_> = screen.lines().take_while(|line| !line.trim().is_empty()).collect();
    assert_eq!(table.len(), 3, "{screen}");
    assert!(table.iter().all(|line| line.trim_end().chars().count() <= 60), "{screen}");
    assert!(table[1].contains('…') && !screen.contains('\u{1b}'), "{screen}");
}

#[test]
fn hostile_names_and_fields_do_nothing_to_the_terminal() {
    let server = RedisServer::start();
    for name in ["a\u{1b}[2Jb", "right\u{202e}left", "{x}{y", "https://me:secret@example.org/x"] {
        java_hold(&server, name, JAVA);
    }
    assert_eq!(server.cli(&["HSET", "no\u{1b}]0;lock", "x\u{1b}[2J", "1"]), "1");
    for words in [&["list"][..], &["list", "--json"], &["show", "right\u{202e}left"]] {
        let out = done(&server.url(), words, 0);
        assert!(!out.contains('\u{1b}'), "{out}");
        assert!(words.contains(&"--json") || !out.contains('\u{202e}'), "{out}");
    }
    let listing = json(&server.url(), &["list"], 0);
    assert_eq!(listing["objects"].as_array().unwrap().len(), 3, "a name with controls is no name: {listing}");
}

#[test]
fn a_prefix_hides_other_tenants() {
    let server = RedisServer::start();
    java_hold(&server, "app:mine", JAVA);
    java_hold(&server, "other:theirs", JAVA);
    let mut program = operator(&server.url(), &["list", "--json"]);
    let outcome: Outcome = outcome(program.env("LEASEHOLD_KEY_PREFIX", "app:"));
    let listing: Value = serde_json::from_str(&outcome.out).unwrap();
    assert_eq!(listing["objects"].as_array().unwrap().len(), 1, "{listing}");
    let mine = object(&listing, "mine");
    assert_eq!(mine["key"], "app:mine");
}

#[test]
fn an_operator_sees_all_with_the_rights_that_acl_prints_and_releases_with_more() {
    let server = RedisServer::start();
    java_hold(&server, "app:job", JAVA);
    let url = format!("redis://operator:word@127.0.0.1:{}", server.port());
    let allow = |options: &[&str]| {
        let line = done(
            &url,
            &[&["acl", "--operator", "--prefix", "app:", "--user", "operator"], options].concat(),
            0,
        );
        let line = line.replace("PASSWORD", "word");
        assert_eq!(server.cli(&line.split_whitespace().collect::<Vec<_>>()), "OK", "{line}");
    };
    let run = |words: &[&str]| outcome(operator(&url, words).env("LEASEHOLD_KEY_PREFIX", "app:"));
    allow(&[]);
    let checked = || {
        let words = ["doctor", "--json", "--prefix", "app:", "--operator", "operator"];
        let report: Value = serde_json::from_str(&outcome(&mut operator(&server.url(), &words)).out).unwrap();
        let findings = report["findings"].as_array().unwrap().clone();
        findings.into_iter().find(|finding| finding["check"] == "operator-rights").unwrap()
    };
    assert_eq!(checked()["verdict"], "pass", "{}", checked());
    assert_eq!(server.cli(&["ACL", "SETUSER", "operator", "-scan"]), "OK");
    assert!(checked()["verdict"] == "warn" && checked()["found"].as_str().unwrap().contains("+scan"));
    allow(&[]);
    let listed = run(&["list", "--json"]);
    assert_eq!(listed.code(), 0, "{} {}", listed.out, listed.err);
    assert!(listed.out.contains(JAVA));
    assert_eq!(run(&["show", "job"]).code(), 0);
    assert_eq!(run(&["clients"]).code(), 0);
    let refused = run(&["release", "job", "--yes"]);
    assert_eq!(refused.code(), 69, "{} {}", refused.out, refused.err);
    assert_eq!(server.cli(&["EXISTS", "app:job"]), "1");
    allow(&["--release"]);
    let released = run(&["release", "job", "--yes"]);
    assert_eq!(released.code(), 0, "{} {}", released.out, released.err);
    assert_eq!(server.cli(&["EXISTS", "app:job"]), "0");
}

#[test]
fn the_masters_of_a_cluster_are_all_looked_at() {
    let cluster = Cluster::start(3, 0);
    let names: Vec<_> = (0..12).map(|number| format!("job:{number}")).collect();
    for name in &names {
        java_hold(&cluster.nodes()[cluster.node_of_slot(cluster.slot_of_key(name))], name, JAVA);
    }
    let listing = json(&cluster.url(), &["list"], 0);
    assert_eq!(listing["objects"].as_array().unwrap().len(), names.len(), "{listing}");
    let nodes: std::collections::BTreeSet<_> =
        names.iter().map(|name| object(&listing, name)["node"].as_str().unwrap()).collect();
    assert_eq!(nodes.len(), 3);
    done(&cluster.url(), &["release", "job:7", "--yes"], 0);
    done(&cluster.url(), &["show", "job:7"], 1);
}

#[test]
fn the_master_behind_sentinels_is_looked_at() {
    let fleet = Sentinels::with(SentinelOptions::default());
    java_hold(&fleet.nodes()[fleet.master()], "job", JAVA);
    let listing = json(&fleet.url(), &["list"], 0);
    assert_eq!(object(&listing, "job")["holders"][0]["owner"], JAVA);
}

#[test]
fn shells_and_manuals_know_the_verbs() {
    let run = |words: &[&str]| outcome(leasehold().args(words));
    for shell in ["bash", "zsh", "fish"] {
        let completed = run(&["completions", shell]).out;
        assert!(completed.contains("release") && !completed.contains("__exec"), "{shell}");
    }
    assert!(run(&["man"]).out.contains(".TH leasehold"));
    assert!(run(&["man", "list"]).out.contains("leasehold-list"));
    assert_eq!(run(&["man", "nonsense"]).code(), 64);
}
