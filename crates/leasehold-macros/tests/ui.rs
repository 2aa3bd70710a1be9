//! The compiler's messages: none for correct code, and a suggestion for every mistake.
//!
//! The messages in `fail` are the macros' own. In `fail_by_rustc` the compiler finds the mistake, and the macros
//! choose only the place. Those messages change with the compiler, so the test compares them for one version.
//! `TRYBUILD=overwrite cargo test -p leasehold-macros --all-features --test ui` writes the current messages to the
//! files.

#![allow(clippy::unwrap_used, reason = "helpers of tests are test code too")]

use std::io::Write;
use std::process::Command;

/// The version of the compiler whose messages `fail_by_rustc` has.
const RUSTC: &str = "rustc 1.95.";

#[test]
fn valid_uses_compile_and_invalid_uses_get_advice() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/fail/*.rs");
    let (by_feature, other) = if cfg!(feature = "blocking") {
        ("fail_with_blocking", "fail_without_blocking")
    } else {
        ("fail_without_blocking", "fail_with_blocking")
    };
    cases.compile_fail(format!("tests/ui/{by_feature}/*.rs"));
    left_out(&format!("{other}, which is for other features than these"));
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().unwrap().stdout;
    let version = String::from_utf8(version).unwrap();
    if version.starts_with(RUSTC) {
        cases.compile_fail("tests/ui/fail_by_rustc/*.rs");
    } else {
        left_out(&format!("fail_by_rustc, which has the words of {RUSTC}x; this is {}", version.trim()));
    }
}

/// Prints to the real stderr, because the test harness hides the output of the print macros when the test passes.
fn left_out(what: &str) {
    std::io::stderr().write_all(format!("left out: {what}\n").as_bytes()).unwrap();
}
