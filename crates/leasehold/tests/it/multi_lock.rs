//! Several locks at once: all or none, in one step or in order.

use std::time::{Duration, Instant};

use leasehold::error::{AcquireErrorKind, Verb};
use leasehold::multi::Member;
use leasehold::{
    AcquireError, Client, LostReason, MultiLock, Name, OnFinish, OnLost, ReleaseOutcome, RunError,
};

use crate::support::{
    Fixture, Monitor, TestServer, assert_failed, connect, connect_with, eventually, is_free, ms, on_both,
    run_command, soon, times_sent,
};

on_both! {
    async {
        all_members_are_acquired_and_released,
        one_held_member_leaves_the_others_free,
        a_wait_that_ends_leaves_nothing,
        a_dropped_wait_leaves_nothing,
        locks_of_one_slot_are_one_command,
        locks_of_one_slot_are_acquired_all_or_none,
        a_release_of_locks_of_one_slot_wakes_the_waiters_of_each,
        a_waiter_of_locks_of_one_slot_is_woken_by_either,
        members_of_different_kinds_and_clients_work_together,
        overlapping_sets_never_wait_for_each_other,
        a_lock_named_twice_is_acquired_once,
        the_shortest_validity_counts,
        losing_one_member_loses_all,
        losing_one_member_of_a_slot_frees_the_others,
        an_owner_that_holds_a_member_acquires_the_set,
        an_error_of_one_member_undoes_the_others,
        two_invalid_names_are_not_treated_as_one_name,
        one_name_as_two_kinds_fails_at_once,
        one_name_as_two_kinds_fails_at_once_whatever_sorts_between,
        members_that_would_wait_for_each_other_fail_at_once,
        members_that_share_a_name_are_acquired,
    }
}

/// Two names of one cluster slot.
fn pair(client: &Client) -> [Member; 2] {
    ["1", "2"].map(|rest| client.lock(Name::with_hash_tag("account", rest).unwrap()).into())
}

/// Two names of different slots.
fn apart(client: &Client) -> [Member; 2] {
    ["account:1", "account:2"].map(|name| client.lock(name).into())
}

const SAME_SLOT: [&str; 2] = ["{account}1", "{account}2"];
const APART: [&str; 2] = ["account:1", "account:2"];

async fn all_members_are_acquired_and_released(server: Fixture) {
    let client = connect(&server).await;
    for (set, names) in [(pair(&client), SAME_SLOT), (apart(&client), APART)] {
        let guard = MultiLock::of(set).lock().await.unwrap();
        assert!(guard.is_held() && guard.remaining() > ms(20_000));
        assert!(names.iter().all(|name| !is_free(&server, name)));
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
        assert!(names.iter().all(|name| is_free(&server, name)));
    }
}

async fn one_held_member_leaves_the_others_free(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    for (set, [first, second]) in [(pair(&one), SAME_SLOT), (apart(&one), APART)] {
        let held = other.lock(Name::raw_redisson(second).unwrap()).lock().await.unwrap();
        assert!(MultiLock::of(set).try_lock().await.unwrap().is_none());
        eventually("the first to be free", || is_free(&server, first)).await;
        held.release().await.unwrap();
    }
}

async fn a_wait_that_ends_leaves_nothing(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    for (set, [first, second]) in [(pair(&one), SAME_SLOT), (apart(&one), APART)] {
        let _held = other.lock(Name::raw_redisson(second).unwrap()).lock().await.unwrap();
        let started = Instant::now();
        let outcome = MultiLock::of(set).try_lock_for(ms(200)).await;
        // On a slow machine an attempt may be in flight when the wait ends. Its outcome is then unknown, and the client
        // undoes it.
        assert!(
            matches!(outcome, Ok(None) | Err(AcquireError { kind: AcquireErrorKind::Unknown { .. }, .. })),
            "{outcome:?}"
        );
        assert!(started.elapsed() >= ms(200));
        eventually("the first to be free", || is_free(&server, first)).await;
    }
}

async fn a_dropped_wait_leaves_nothing(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let held = other.lock("account:2").lock().await.unwrap();
    let set = MultiLock::of(apart(&one));
    let waiting = tokio::spawn(async move { set.lock().await });
    eventually("it to hold the first", || !is_free(&server, "account:1")).await;
    waiting.abort();
    eventually("the first to be free", || is_free(&server, "account:1")).await;
    held.release().await.unwrap();
    one.close().await;
    assert!(is_free(&server, "account:2"));
}

async fn locks_of_one_slot_are_one_command(server: Fixture) {
    let client = connect(&server).await;
    let set = MultiLock::of(pair(&client));
    // Before its first script of several names a connection asks whether one server is behind it.
    set.lock().await.unwrap().release().await.unwrap();
    let before = server.scripts_run();
    let guard = set.lock().await.unwrap();
    assert_eq!(server.scripts_run() - before, 1);
    guard.release().await.unwrap();
    assert_eq!(server.scripts_run() - before, 2);
}

async fn locks_of_one_slot_are_acquired_all_or_none(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let held = other.lock(Name::with_hash_tag("account", "2").unwrap()).lock().await.unwrap();
    let set = MultiLock::of(pair(&one));
    let waiting = tokio::spawn(async move { set.lock().await.unwrap() });
    let before = server.scripts_run();
    eventually("it to ask again", || server.scripts_run() > before + 2).await;
    assert!(is_free(&server, "{account}1"));
    held.release().await.unwrap();
    soon("both", waiting).await.unwrap().release().await.unwrap();
}

async fn a_release_of_locks_of_one_slot_wakes_the_waiters_of_each(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let guard = MultiLock::of(pair(&one)).lock().await.unwrap();
    let builder = Client::builder().poll_interval(Duration::from_secs(3_600));
    let sleeper = connect_with(builder, &server.url()).await;
    let waiting = SAME_SLOT.map(|name| {
        let lock = sleeper.lock(Name::raw_redisson(name).unwrap());
        tokio::spawn(async move { lock.lock().await.unwrap() })
    });
    let before = server.scripts_run();
    eventually("both to sleep", || server.scripts_run() >= before + 2).await;
    assert!(other.lock(Name::raw_redisson(SAME_SLOT[0]).unwrap()).try_lock().await.unwrap().is_none());
    guard.release().await.unwrap();
    for task in waiting {
        soon("its turn", task).await.unwrap().release().await.unwrap();
    }
}

async fn a_waiter_of_locks_of_one_slot_is_woken_by_either(server: Fixture) {
    let builder = Client::builder().poll_interval(Duration::from_secs(3_600));
    let (one, other) = (connect_with(builder, &server.url()).await, connect(&server).await);
    for name in SAME_SLOT {
        let held = other.lock(Name::raw_redisson(name).unwrap()).lock().await.unwrap();
        let set = MultiLock::of(pair(&one));
        let waiting = tokio::spawn(async move { set.lock().await.unwrap() });
        let before = server.scripts_run();
        eventually("it to sleep", || server.scripts_run() > before).await;
        held.release().await.unwrap();
        soon("both", waiting).await.unwrap().release().await.unwrap();
    }
}

async fn members_of_different_kinds_and_clients_work_together(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let set = MultiLock::of([
        one.lock("a").into(),
        other.fair_lock("b").into(),
        one.fenced_lock("c").into(),
        other.spin_lock("d").lease(ms(30_000)).into(),
        one.rw_lock("e").read_lock().into(),
        one.rw_lock("e").write_lock().into(),
    ]);
    let guard = set.lock().await.unwrap();
    assert!(["a", "b", "c", "d", "e"].iter().all(|name| !is_free(&server, name)));
    guard.release().await.unwrap();
    assert!(["a", "b", "c", "d", "e"].iter().all(|name| is_free(&server, name)));
}

async fn overlapping_sets_never_wait_for_each_other(server: Fixture) {
    let clients = [connect(&server).await, connect(&server).await, connect(&server).await];
    let sets = [["a", "b"], ["b", "c"], ["c", "a"], ["b", "a"], ["c", "b"], ["a", "c"]];
    let tasks: Vec<_> = (0..12)
        .map(|task| {
            let client = &clients[task % 3];
            let set = MultiLock::of(sets[task % 6].map(|name| client.lock(name).into()));
            tokio::spawn(async move {
                for _ in 0..10 {
                    let guard = set.lock().await.unwrap();
                    assert!(guard.is_held());
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        soon("everybody", task).await.unwrap();
    }
}

async fn a_lock_named_twice_is_acquired_once(server: Fixture) {
    let client = connect(&server).await;
    let twice = || [client.lock("a").into(), client.lock("a").into()];
    let guard = soon("it", MultiLock::of(twice()).lock()).await.unwrap();
    guard.release().await.unwrap();
    let mixed = [client.lock("a").into(), client.lock("a").lease(ms(5_000)).into()];
    let guard = soon("it", MultiLock::of(mixed).lock()).await.unwrap();
    guard.release().await.unwrap();
    assert!(is_free(&server, "a"));
}

async fn the_shortest_validity_counts(server: Fixture) {
    let client = connect(&server).await;
    let set = MultiLock::of([client.lock("a").into(), client.lock("b").lease(ms(2_000)).into()]);
    let guard = set.lock().await.unwrap();
    assert!(guard.remaining() <= ms(2_000));
    guard.ensure(ms(1_000)).await.unwrap();
}

async fn losing_one_member_loses_all(server: Fixture) {
    let client = connect(&server).await;
    let set = MultiLock::of([client.lock("a").into(), client.lock("b").watchdog(ms(300)).into()]);
    let guard = set.lock().await.unwrap();
    assert!(client.lock("b").force_unlock().await.unwrap());
    soon("the loss", guard.lost()).await;
    assert!(!guard.is_held());
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::NotHeld);
    assert!(is_free(&server, "a"));
}

async fn losing_one_member_of_a_slot_frees_the_others(server: Fixture) {
    let client = connect(&server).await;
    let members =
        SAME_SLOT.map(|name| Member::from(client.lock(Name::raw_redisson(name).unwrap()).watchdog(ms(300))));
    let guard = MultiLock::of(members).lock().await.unwrap();
    run_command(&server, &["DEL", SAME_SLOT[1]]);
    soon("the loss", guard.lost()).await;
    eventually("the other to be free", || is_free(&server, SAME_SLOT[0])).await;
}

async fn an_owner_that_holds_a_member_acquires_the_set(server: Fixture) {
    let client = connect(&server).await;
    leasehold::owner::scope(async {
        let outer = client.lock(Name::raw_redisson(SAME_SLOT[1]).unwrap()).lock().await.unwrap();
        let guard = soon("the set", MultiLock::of(pair(&client)).lock()).await.unwrap();
        guard.release().await.unwrap();
        assert!(outer.is_held());
    })
    .await;
}

async fn an_error_of_one_member_undoes_the_others(server: Fixture) {
    let client = connect(&server).await;
    run_command(&server, &["SET", "account:2", "text"]);
    run_command(&server, &["SET", "{account}2", "text"]);
    for (set, first) in [(apart(&client), "account:1"), (pair(&client), "{account}1")] {
        let outcome = MultiLock::of(set).lock().await;
        assert_failed!(outcome, AcquireErrorKind::OtherKind(_));
        eventually("the first to be free", || is_free(&server, first)).await;
    }
}

async fn two_invalid_names_are_not_treated_as_one_name(server: Fixture) {
    let client = connect(&server).await;
    // An invalid name has no place in the order of the members.
    let set = MultiLock::of([client.lock("a{").into(), client.fair_lock("b{").into()]);
    let error = soon("the error", set.lock()).await.unwrap_err();
    assert!(
        matches!(error.kind, AcquireErrorKind::Name(leasehold::error::NameError::Brace { at: 1, .. })),
        "{error}"
    );
    assert!(matches!(&*error.subject.name, "a{" | "b{"), "{error}");
}

async fn one_name_as_two_kinds_fails_at_once(server: Fixture) {
    let client = connect(&server).await;
    let set = MultiLock::of([client.lock("a").into(), client.fair_lock("a").into(), client.lock("b").into()]);
    assert_eq!(soon("the error", set.lock()).await.unwrap_err(), AcquireErrorKind::Deadlock);
    assert!(is_free(&server, "a") && is_free(&server, "b"));
}

async fn one_name_as_two_kinds_fails_at_once_whatever_sorts_between(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    for (name, between) in [("a", one.lock("a")), ("b", other.lock("b"))] {
        let members = [one.spin_lock(name).into(), between.into(), one.fair_lock(name).into()];
        assert_eq!(
            soon("the error", MultiLock::of(members).lock()).await.unwrap_err(),
            AcquireErrorKind::Deadlock
        );
        assert!(is_free(&server, name));
    }
}

async fn members_that_would_wait_for_each_other_fail_at_once(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let sides = || (one.rw_lock("a").read_lock(), one.rw_lock("a").write_lock());
    let sets: [[Member; 2]; 4] = [
        [one.lock("a").into(), other.lock("a").into()],
        [one.lock("a").owned_by(&one.owner()).into(), one.lock("a").into()],
        [sides().0.owned_by(&one.owner()).into(), sides().1.into()],
        [other.rw_lock("a").read_lock().into(), sides().1.into()],
    ];
    for set in sets {
        assert_eq!(
            soon("the error", MultiLock::of(set).lock()).await.unwrap_err(),
            AcquireErrorKind::Deadlock
        );
        assert!(is_free(&server, "a"));
    }
}

async fn members_that_share_a_name_are_acquired(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let (apart, owner) = (connect(&Fixture::embedded()).await, one.owner());
    let sets: [[Member; 2]; 3] = [
        [one.rw_lock("a").read_lock().into(), other.rw_lock("a").read_lock().into()],
        [
            one.rw_lock("a").read_lock().owned_by(&owner).into(),
            one.rw_lock("a").write_lock().owned_by(&owner).into(),
        ],
        [one.lock("a").into(), apart.lock("a").into()],
    ];
    for set in sets {
        soon("the set", MultiLock::of(set).lock()).await.unwrap().release().await.unwrap();
        assert!(is_free(&server, "a"));
    }
}

#[tokio::test]
async fn a_body_runs_under_all_members_and_is_dropped_at_the_first_loss() {
    let server = Fixture::redis();
    let client = connect(&server).await;
    let both = MultiLock::of([client.lock("a").into(), client.fair_lock("b").watchdog(ms(600)).into()]);
    let value =
        both.run(async |guard| guard.is_held() && !is_free(&server, "a") && !is_free(&server, "b")).await;
    assert_eq!((value, is_free(&server, "a"), is_free(&server, "b")), (Ok(true), true, true));
    let lost = both.run(async |_| {
        run_command(&server, &["DEL", "b"]);
        std::future::pending::<()>().await;
    });
    let error = soon("the loss", lost).await.unwrap_err();
    assert!(error.is_lost(), "{error}");
    eventually("the other member", || is_free(&server, "a")).await;
}

#[tokio::test]
async fn a_member_that_must_show_signs_of_life_outlives_the_wait_for_another_one() {
    let server = Fixture::redis();
    let (client, other) = (connect(&server).await, connect(&server).await);
    let held = other.fair_lock("b").lock().await.unwrap();
    let first = client.lock("a").watchdog(ms(600)).silent_for(ms(300));
    let both = MultiLock::of([first.into(), client.fair_lock("b").into()]);
    let waiting = tokio::spawn(async move { both.lock().await });
    eventually("the first", || !is_free(&server, "a")).await;
    let monitor = Monitor::start(&server);
    // Longer than its lease and its silence together.
    eventually("renewals of the first", || times_sent(&monitor, Verb::Renew) > 5).await;
    held.release().await.unwrap();
    let guard = soon("both", waiting).await.unwrap().unwrap();
    assert!(guard.is_held());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_whose_client_is_closed_ends_the_wait_for_another_one() {
    let server = Fixture::redis();
    let (one, other, third) = (connect(&server).await, connect(&server).await, connect(&server).await);
    let held = third.fair_lock("b").lock().await.unwrap();
    let members = [one.lock("a").silent_for(ms(60_000)).into(), other.fair_lock("b").into()];
    let waiting = tokio::spawn(async move { MultiLock::of(members).lock().await.map(drop) });
    eventually("the first", || !is_free(&server, "a")).await;
    one.close().await;
    held.release().await.unwrap();
    let lost = soon("its end", waiting).await.unwrap().unwrap_err();
    assert_eq!(lost.kind, AcquireErrorKind::Lost(LostReason::Closed));
}

#[tokio::test]
async fn a_section_of_several_is_busy_after_its_wait_and_leaves_what_it_detaches() {
    let server = Fixture::redis();
    let client = connect(&server).await;
    let both = MultiLock::of([client.lock("a").into(), client.fair_lock("b").into()]);
    let held = client.fair_lock("b").lock().await.unwrap();
    let busy = both.section().wait(ms(50)).run(async |_| ()).await;
    assert!(matches!(&busy, Err(RunError::Busy { subject, .. }) if &*subject.name == "a, b"), "{busy:?}");
    eventually("the first to be undone", || is_free(&server, "a")).await;
    held.release().await.unwrap();
    let left = both.section().on_finish(OnFinish::Detach).run(async |_| ()).await;
    assert_eq!((left, is_free(&server, "a"), is_free(&server, "b")), (Ok(()), false, false));
}

#[tokio::test]
async fn a_body_that_may_finish_outlives_the_loss_of_a_member() {
    let server = Fixture::redis();
    let client = connect(&server).await;
    let both = MultiLock::of([client.lock("a").into(), client.lock("b").watchdog(ms(600)).into()]);
    let finished = both.section().on_lost(OnLost::Finish).run(async |guard| {
        run_command(&server, &["DEL", "b"]);
        guard.lost().await
    });
    assert_eq!(soon("the end of the body", finished).await, Ok(LostReason::Deleted));
}
