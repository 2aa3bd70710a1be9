//! Listings of which a part cannot be seen.

use leasehold_testkit::servers::RedisServer;
use serde_json::Value;

use crate::fixture::{Running, leasehold, outcome};
use crate::operators::{JAVA, done, java_hold, json, object};

/// Returns the URL of a user with these rights.
fn user(server: &RedisServer, rights: &[&str]) -> String {
    let words = [&["ACL", "SETUSER", "operator", "on", ">word", "resetkeys", "&*"], rights].concat();
    assert_eq!(server.cli(&words), "OK");
    format!("redis://operator:word@127.0.0.1:{}", server.port())
}

fn missing(listing: &Value) -> String {
    assert_eq!(listing["complete"], false, "{listing}");
    listing["sources"]["missing"].to_string()
}

#[test]
fn a_key_that_may_not_be_read_hides_no_other() {
    let server = RedisServer::start();
    java_hold(&server, "job", JAVA);
    java_hold(&server, "secret", JAVA);
    let rights = ["+@all", "~job*", "~{job*", "~*leasehold*", "~redisson*"];
    let url = user(&server, &rights);
    let listing = json(&url, &["list"], 3);
    assert_eq!(object(&listing, "job")["holders"][0]["owner"], JAVA);
    assert!(missing(&listing).contains("secret"), "{listing}");
    assert!(done(&url, &["list"], 3).contains("secret"), "the last line says it too");
    done(&url, &["show", "job"], 0);
    done(&url, &["show", "secret"], 69);
}

#[test]
fn a_listing_goes_on_without_the_clients() {
    let server = RedisServer::start();
    java_hold(&server, "job", JAVA);
    let url = user(&server, &["+@all", "~job*", "~{job*", "~redisson*", "~leasehold_*{job*"]);
    let listing = json(&url, &["list"], 3);
    assert_eq!(object(&listing, "job")["holders"][0]["owner"], JAVA);
    assert!(missing(&listing).contains("clients"), "{listing}");
}

#[test]
fn a_database_of_unknown_size_is_scanned_on_request_only() {
    let server = RedisServer::start();
    java_hold(&server, "job", JAVA);
    let url = user(&server, &["+@all", "-dbsize", "~*"]);
    let listing = json(&url, &["list"], 3);
    assert!(missing(&listing).to_lowercase().contains("dbsize"), "{listing}");
    assert_eq!(listing["sources"]["scan"]["done"], false);
    object(&json(&url, &["list", "--scan"], 0), "job");
}

#[test]
fn the_waiters_of_another_database_are_not_those_of_this_one() {
    let server = RedisServer::start();
    java_hold(&server, "here", JAVA);
    // What a waiter of Redisson in database 5 subscribes to, and what it waits for.
    let mut listener = std::process::Command::new("redis-cli");
    listener.args(["-p", &server.port().to_string(), "SUBSCRIBE", "redisson_lock__channel:{there}"]);
    let listener = Running::start(&mut listener);
    listener.wait_for_output("subscribe");
    let names = |database: u32| {
        let listing = json(&format!("{}/{database}", server.url()), &["list"], 0);
        let objects = listing["objects"].as_array().unwrap().clone();
        objects.iter().map(|object| object["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(0), ["there", "here"], "no other database has keys, so it is of this one");
    assert_eq!(server.cli(&["-n", "5", "HSET", "there", JAVA, "1"]), "1");
    assert_eq!(names(0), ["here"]);
    assert_eq!(names(5), ["there"]);
    assert!(names(7).is_empty());
}

#[test]
fn of_a_quorum_one_server_is_listed_and_none_is_changed() {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::start()).collect();
    servers.iter().for_each(|server| java_hold(server, "job", JAVA));
    let urls: Vec<_> = servers.iter().map(RedisServer::url).collect();
    let run = |words: &[&str]| outcome(leasehold().env("LEASEHOLD_QUORUM__URLS", urls.join(",")).args(words));
    let listed = run(&["list"]);
    assert!(
        listed.code() == 0 && listed.out.contains("only one of 3 servers"),
        "{} {}",
        listed.out,
        listed.err
    );
    let shown = run(&["show", "job"]);
    assert!(
        shown.out.contains(&format!("127.0.0.1:{} is only one of 3", servers[0].port())),
        "{}",
        shown.out
    );
    for words in [&["release", "job", "--yes"][..], &["repair", "job", "--fix", "no-expiry", "--yes"]] {
        let refused = run(words);
        assert_eq!(refused.code(), 64, "{} {}", refused.out, refused.err);
        assert!(refused.err.contains("--url"), "{}", refused.err);
    }
    assert!(servers.iter().all(|server| server.cli(&["EXISTS", "job"]) == "1"));
}
