//! `leasehold acl`, and the page that shows its output.

use std::path::Path;
use std::process::{Command, Output};

use leasehold_testkit::servers::RedisServer;

fn acl(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_leasehold")).env_clear().arg("acl").args(arguments).output().unwrap()
}

#[test]
fn the_security_page_shows_the_output_of_the_program() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../SECURITY.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut commands = 0;
    for part in page.split("$ leasehold acl ").skip(1) {
        let (arguments, rest) = part.split_once('\n').unwrap();
        let output = acl(&arguments.split(' ').collect::<Vec<_>>());
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(rest.starts_with(&printed), "{arguments} prints:\n{printed}");
        assert!(!printed.is_empty(), "{arguments}");
        commands += 1;
    }
    assert!(commands >= 12, "{commands} commands");
}

#[test]
fn wrong_primitives_and_prefixes_are_usage_errors() {
    for (arguments, reason) in [
        (&["--primitives", "lock,mutex"][..], "the primitives are lock, fair, fenced"),
        (&["--prefix", "a b"], "no spaces"),
        (&["--cluster", "--sentinel"], "cannot be used with"),
        (&["--user", "a b"], "one word"),
    ] {
        let output = acl(arguments);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains(reason), "{told}");
    }
}

#[test]
fn a_native_command_is_in_the_line_if_it_is_chosen_and_only_a_server_that_has_it_takes_the_line() {
    let server = RedisServer::start();
    for command in ["delifeq", "delex"] {
        let printed = String::from_utf8(acl(&["--primitives", "plain", "--native", command]).stdout).unwrap();
        assert!(printed.contains(&format!(" +{command}")), "{printed}");
        let is_known = server.cli(&["COMMAND", "INFO", command]).contains(command);
        let words: Vec<_> = printed.split_whitespace().collect();
        assert_eq!(server.cli(&words) == "OK", is_known, "{command}");
    }
    let refused = acl(&["--native", "getdel"]);
    assert_eq!(refused.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("delifeq, delex"));
}

#[test]
fn the_user_has_the_chosen_name_on_every_server() {
    let printed = String::from_utf8(acl(&["--sentinel", "--user", "orders"]).stdout).unwrap();
    assert_eq!(printed.matches("ACL SETUSER orders reset on >PASSWORD ").count(), 2, "{printed}");
}

#[test]
fn a_server_takes_every_line_with_and_without_a_prefix() {
    let server = RedisServer::start();
    for prefix in [&[][..], &["--prefix", "app:"]] {
        for further in [
            &[][..],
            &["--primitives", "plain"],
            &["--operator"],
            &["--operator", "--release"],
            &["--doctor"],
        ] {
            let printed = String::from_utf8(acl(&[prefix, further].concat()).stdout).unwrap();
            for line in printed.lines() {
                assert_eq!(server.cli(&line.split(' ').collect::<Vec<_>>()), "OK", "{line}");
            }
        }
    }
}
