//! Tests of the plain lock beside other libraries, each in a process of its own language.
//!
//! `cargo x interop plain` builds the peers, says how to start them, and runs these tests. `cargo test` leaves them out. A
//! scenario is a function of one peer, and each peer runs all scenarios.

#![allow(clippy::unwrap_used, reason = "helpers of tests are test code too")]
#![allow(clippy::disallowed_methods, reason = "test code: tasks and real time")]
#![allow(clippy::print_stdout, reason = "a process of this program says when it is ready")]

#[path = "../interop/child.rs"]
mod child;
mod crowd;
mod deaths;
mod deletes;
mod endless;
mod guide;
mod handover;
mod peer;
mod report;
mod roster;
mod scene;
#[path = "../it/support/mod.rs"]
mod support;

/// Expands each scenario into one test for each peer: `redis_py::a_scenario`. The tests of peers behind the word
/// `ignore` run with `--all` alone.
macro_rules! each_peer_runs {
    ($scenarios:tt: $($peer:ident $($ignore:ident)?,)+) => {
        $(mod $peer { each_peer_runs!(@ $peer [$($ignore)?] $scenarios); })+
    };
    (@ $peer:ident $ignore:tt [$($file:ident::$scenario:ident,)+]) => {
        $(each_peer_runs!(# $peer $ignore $file $scenario);)+
    };
    (# $peer:ident [$($ignore:ident)?] $file:ident $scenario:ident) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        $(#[$ignore = "runs with --all"])?
        async fn $scenario() {
            let kind = crate::roster::find(stringify!($peer));
            let seen = crate::$file::$scenario(crate::scene::Scene::start(kind)).await;
            crate::report::add(kind, stringify!($scenario), &seen);
        }
    };
}

each_peer_runs! {
    [
        handover::a_peer_hands_over_to_rust,
        handover::rust_hands_over_to_a_peer,
        deaths::a_killed_peer_blocks_rust_for_its_lease,
        deaths::a_killed_rust_process_blocks_a_peer_for_its_lease,
        deletes::rust_learns_that_its_key_was_deleted,
        deletes::a_peer_whose_key_was_deleted_leaves_rust_alone,
        deletes::rust_leaves_a_key_alone_that_a_peer_set_again,
        endless::a_hold_without_expiry_is_awaited_or_reported,
        crowd::a_poller_gets_its_share_beside_busy_clients,
        crowd::a_crowd_loses_no_count,
    ]:
    redis_py,
    redis_py_asyncio,
    python_redis_lock,
    redsync,
    redlock5,
    redis_semaphore,
    rslock,
    pottery ignore,
    bsm ignore,
    redlock4 ignore,
    rlock ignore,
    shedlock ignore,
    safe_shedlock ignore,
    spring ignore,
    spring_pub_sub ignore,
}
