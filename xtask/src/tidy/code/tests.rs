//! Tests of the rules for single files: texts that a rule must find, and texts that it must not.
//!
//! Invariant: the path of an example decides which rules apply to it.

use super::*;

/// Returns the lines of a rule's findings.
fn lines(rule: fn(&Source) -> Vec<String>, path: &str, source: &str) -> Vec<usize> {
    let findings = rule(&Source::new(path, source).unwrap());
    findings.iter().map(|finding| finding.split(':').nth(1).unwrap().parse().unwrap()).collect()
}

const LOCK: &str = "crates/leasehold/src/lock.rs";
const STORE: &str = "crates/leasehold-store/src/store.rs";

#[test]
fn server_crates_are_found_in_paths_and_imports() {
    let source = "use leasehold_store::{\n  Store,\n  redis::Redis,\n};\nleasehold_store::redis::open();\n\
                  leasehold_store::redis_like();\nuse leasehold_store::{Store, StoreError};\nlet redis = 1;\n";
    assert_eq!(lines(back_ends, LOCK, source), [1, 5]);
    assert!(lines(back_ends, "crates/leasehold/src/client/connect.rs", source).is_empty());
    assert!(lines(back_ends, "crates/leasehold-cli/src/main.rs", source).is_empty());
}

#[test]
fn clocks_are_found_in_libraries_and_left_to_runtimes_and_tests() {
    let source = "Instant::now();\n// Instant::now()\nlet x = \"tokio::spawn\";\ntokio::time::sleep(d);\n\
                  MyInstant::now();\n#[cfg(test)]\nmod tests {\n  Instant::now();\n}\n";
    assert_eq!(lines(clocks, LOCK, source), [1, 4]);
    assert!(lines(clocks, "crates/leasehold-store/src/tokio_runtime.rs", source).is_empty());
    assert!(lines(clocks, "crates/leasehold-testkit/src/wait.rs", source).is_empty());
}

#[test]
fn observers_are_found_as_roots_of_paths_only() {
    let source = "use tracing::info;\nmetrics::counter!(1);\ncrate::observe::metrics::add();\nlet my_metrics = 1;\n\
                  #[tracing::instrument]\nuse metrics_of_mine::x;\n";
    assert_eq!(lines(observers, LOCK, source), [1, 2, 5]);
    assert!(lines(observers, "crates/leasehold/src/observe/spans.rs", source).is_empty());
}

#[test]
fn lua_is_found_in_strings() {
    let source = "let x = \"return redis.call('GET', KEYS[1])\";\n// redis.call()\nredis.call();\n";
    assert_eq!(lines(lua, LOCK, source), [1]);
}

#[test]
fn unfinished_work_is_found_everywhere() {
    let source = "todo!()\nlet x = \"dbg!\";\nmy_dbg!(x);\n#[ignore = \"slow\"]\n";
    assert_eq!(lines(unfinished, "crates/leasehold/tests/lock.rs", source), [1, 4]);
}

#[test]
fn sleeps_are_found_in_tests() {
    let source = "std::thread::sleep(d);\nsleep(d).await;\nclock.sleep(d);\nfn sleep() {}\ncli(\"sleep(1)\");\n\
                  asleep(d);\ntime::sleep_until(then).await;\ntime_passes(d).await;\n\
                  eventually(what, || started.elapsed() >= span).await;\n\
                  eventually(what, || is_free() || began.elapsed() > limit).await;\n\
                  eventually(what, || is_free() && count(began.elapsed() > limit)).await;\n";
    let found = lines(fixed_sleeps, "crates/leasehold/tests/lock.rs", source);
    assert_eq!(found, [1, 2, 7, 8, 9, 10]);
    assert!(lines(fixed_sleeps, "crates/leasehold-testkit/src/wait.rs", source).is_empty());
}

#[test]
fn forbidden_words_are_found_as_parts_of_names() {
    let source = "let heartbeat = 1;\nfn key_ttl() {}\nstruct GcTask;\nconst TTL: u8 = 1;\npttl();\n// rollback\n\
                  let x = \"ttl\";\nenum LeaseTtl {}\n";
    assert_eq!(lines(words, LOCK, source), [1, 2, 3, 4, 8]);
    for peer in ["bench/peers/rust/rlock/src/main.rs", "interop/plain/rust/src/bin/rlock.rs"] {
        assert!(lines(words, peer, source).is_empty());
    }
}

#[test]
fn files_open_with_a_sentence_and_list_no_callers() {
    let whole = "//! A lock.\n//!\n//! Invariant: one holder.\n\nfn a() {}\n";
    assert!(lines(headers, STORE, whole).is_empty());
    assert!(lines(headers, STORE, &format!("#![no_main]\n{whole}")).is_empty());
    assert_eq!(lines(headers, STORE, "fn a() {}\n//! Too late.\n"), [1]);
    assert_eq!(lines(headers, "crates/leasehold/tests/lock.rs", "//!\n//! Second.\n"), [1]);
    assert!(lines(headers, "crates/leasehold-macros/tests/ui/pass/a.rs", "fn a() {}\n").is_empty());
    let callers = format!("{whole}//! Called by: users.\n/// Called by: `b`.\nlet x = \"// Called by:\";\n");
    assert_eq!(lines(headers, STORE, &callers), [6, 7]);
}

#[test]
fn public_pages_have_no_invariants() {
    let page = "//! A lock.\n//! Invariant: one holder.\n";
    assert_eq!(lines(headers, "crates/leasehold/src/error.rs", page), [2]);
    assert!(lines(headers, "crates/leasehold/src/engine/error.rs", page).is_empty());
    assert!(lines(headers, "crates/leasehold-proto/src/lib.rs", page).is_empty());
}

#[test]
fn long_files_are_noted_and_very_long_ones_refused() {
    let judged = |length: usize| {
        let text = "a();\n\n// b\n".repeat(length);
        let source = Source::new(LOCK, &text).unwrap();
        (long_file(&source).is_some(), !too_long(&source).is_empty())
    };
    assert_eq!([260, 261].map(judged), [(false, false), (true, false)]);
    assert_eq!([500, 501].map(judged), [(true, false), (false, true)]);
}
