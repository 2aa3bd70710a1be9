//! Several locks at once and Redisson's `RedissonMultiLock`. Neither writes keys of its own, so each side sees the
//! other as holders and waiters of the members.

use std::time::Duration;

use leasehold::multi::Member;
use leasehold::{Client, MultiLock, Name, ReleaseOutcome};

use crate::crowd::counts_exactly;
use crate::harness::{Harness, on_each_server};
use crate::lock_commands::{LockCommands, java_hands_over_to_rust, rust_hands_over_to_java};
use crate::support::{a_lease_passes, channel, eventually, fields, is_free, ms, soon};

const SHORT_LEASE: Duration = ms(1_500);

on_each_server! {
    members_acquired_one_by_one_are_handed_over_in_both_directions,
    members_acquired_in_one_step_are_handed_over_in_both_directions,
    members_of_several_kinds_are_handed_over_in_both_directions,
    java_threads_and_rust_tasks_count_exactly_with_one_by_one_members,
    java_threads_and_rust_tasks_count_exactly_with_one_step_members,
    opposite_member_orders_do_not_deadlock,
    one_held_member_keeps_the_other_side_from_all_members,
    both_watchdogs_renew_all_members_for_several_leases,
}

/// Two names. With `together` they share a hash tag, so one script can acquire both.
fn names(harness: &Harness, together: bool) -> [String; 2] {
    let tag = harness.name("accounts");
    ["first", "second"]
        .map(|name| if together { format!("{{{tag}}}:{name}") } else { format!("{tag}-{name}") })
}

fn list(names: &[String; 2]) -> String {
    format!("lock:{},lock:{}", names[0], names[1])
}

/// The commands for this list. Waiters listen at its first name.
fn lock_commands_for(list: &str, first: &str) -> LockCommands {
    let channel =
        if first.contains('{') { format!("redisson_lock__channel:{first}") } else { channel(first) };
    LockCommands { name: first.to_owned(), ..LockCommands::of_lock("multi", list, Some(channel)) }
}

fn lock_commands(names: &[String; 2]) -> LockCommands {
    lock_commands_for(&list(names), &names[0])
}

fn both(client: &Client, names: &[String; 2]) -> MultiLock {
    MultiLock::of(names.each_ref().map(|name| Member::from(client.lock(Name::raw_redisson(name).unwrap()))))
}

async fn members_acquired_one_by_one_are_handed_over_in_both_directions(harness: Harness) {
    hand_over(&harness, &names(&harness, false), 2).await;
}

async fn members_acquired_in_one_step_are_handed_over_in_both_directions(harness: Harness) {
    hand_over(&harness, &names(&harness, true), 1).await;
}

async fn hand_over(harness: &Harness, names: &[String; 2], guards: usize) {
    let (client, peer) = (harness.client().await, harness.peer("").await);
    let (lock, thread) = (both(&client, names), peer.thread("a"));
    let acquire = async move { lock.lock().await.unwrap() };
    let guard = java_hands_over_to_rust(harness, &lock_commands(names), &thread, acquire).await;
    assert_eq!(guard.as_ref().len(), guards);
    for name in names {
        assert_eq!(fields(harness.server(), name).len(), 1);
        assert_eq!(thread.ok(&format!("lock try lock {name}")).await, "false");
    }
    let release_lock = async {
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    };
    rust_hands_over_to_java(harness, &lock_commands(names), &thread, release_lock).await;
    assert!(names.iter().all(|name| is_free(harness.server(), name)));
}

async fn members_of_several_kinds_are_handed_over_in_both_directions(harness: Harness) {
    let (client, peer) = (harness.client().await, harness.peer("").await);
    let [plain, fair, prices] = ["a-plain", "b-fair", "c-prices"].map(|stem| harness.name(stem));
    let lock = MultiLock::of([
        client.lock(&*plain).into(),
        client.fair_lock(&*fair).into(),
        client.rw_lock(&*prices).write_lock().into(),
    ]);
    let list = format!("lock:{plain},fair:{fair},write:{prices}");
    let lock_commands = lock_commands_for(&list, &plain);
    let waiting = lock.clone();
    let acquire = async move { waiting.lock().await.unwrap() };
    let guard = java_hands_over_to_rust(&harness, &lock_commands, &peer.thread("a"), acquire).await;
    rust_hands_over_to_java(&harness, &lock_commands, &peer.thread("a"), async { drop(guard) }).await;
    assert!(lock.try_lock().await.unwrap().is_some());
}

async fn java_threads_and_rust_tasks_count_exactly_with_one_by_one_members(harness: Harness) {
    crowd(&harness, &names(&harness, false)).await;
}

async fn java_threads_and_rust_tasks_count_exactly_with_one_step_members(harness: Harness) {
    crowd(&harness, &names(&harness, true)).await;
}

async fn crowd(harness: &Harness, names: &[String; 2]) {
    counts_exactly(
        harness,
        &format!("crowd lock multi {}", list(names)),
        |client| both(client, names),
        |lock, tally| async move {
            let guard = lock.lock().await.unwrap();
            tally.count().await;
            assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
        },
    )
    .await;
    assert!(names.iter().all(|name| is_free(harness.server(), name)));
}

/// Redisson acquires members in the order of its list. In a list with another order than leasehold's, Redisson gives
/// way. After a while it releases its members and starts again.
async fn opposite_member_orders_do_not_deadlock(harness: Harness) {
    let (client, peer) = (harness.client().await, harness.peer("").await);
    let [first, second] = names(&harness, false);
    let in_the_way = client.lock(&*first).lock().await.unwrap();
    // Java has the second lock and waits for the first. Rust is about to have the first and wait for the second.
    let thread = peer.thread("a");
    let reversed = format!("lock:{second},lock:{first}");
    let theirs = thread.ask(&format!("lock acquire multi {reversed}"));
    let lock = both(&client, &[first.clone(), second.clone()]);
    eventually("Java to have the second", || !is_free(harness.server(), &second)).await;
    let ours = tokio::spawn(async move { lock.lock().await.unwrap() });
    drop(in_the_way);
    let release = async {
        let guard = soon("Rust to come through", ours).await.unwrap();
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    };
    let release_lock = async {
        soon("Java to come through", theirs.ok()).await;
        thread.ok(&format!("lock release multi {reversed}")).await;
    };
    tokio::join!(release, release_lock);
    assert!(is_free(harness.server(), &first) && is_free(harness.server(), &second));
}

async fn one_held_member_keeps_the_other_side_from_all_members(harness: Harness) {
    let (client, peer) = (harness.client().await, harness.peer("").await);
    for together in [false, true] {
        let names = names(&harness, together);
        let (lock, thread) = (both(&client, &names), peer.thread("a"));
        let second = client.lock(Name::raw_redisson(&names[1]).unwrap()).lock().await.unwrap();
        assert_eq!(thread.ok(&format!("lock try multi {}", list(&names))).await, "false");
        assert!(is_free(harness.server(), &names[0]), "Java has given back what it had");
        assert_eq!(second.release().await.unwrap(), ReleaseOutcome::Released);
        assert_eq!(thread.ok(&format!("lock try lock {}", names[1])).await, "true");
        assert!(lock.try_lock().await.unwrap().is_none());
        assert!(lock.try_lock_for(ms(100)).await.unwrap().is_none());
        let back = || is_free(harness.server(), &names[0]);
        eventually("what was had to be given back", back).await;
        thread.ok(&format!("lock release lock {}", names[1])).await;
        assert!(lock.try_lock().await.unwrap().is_some());
    }
}

async fn both_watchdogs_renew_all_members_for_several_leases(harness: Harness) {
    let client = harness.client().await;
    let peer = harness.peer(&format!("watchdog={}", SHORT_LEASE.as_millis())).await;
    let thread = peer.thread("a");
    let mut guards = Vec::new();
    let mut held = Vec::new();
    for together in [false, true] {
        let names = names(&harness, together);
        let members = names
            .each_ref()
            .map(|name| Member::from(client.lock(Name::raw_redisson(name).unwrap()).watchdog(SHORT_LEASE)));
        guards.push(MultiLock::of(members).lock().await.unwrap());
        held.push(names);
    }
    let theirs = names(&harness, true);
    lock_commands(&theirs).take(&thread).await;
    a_lease_passes(harness.server(), 3 * SHORT_LEASE).await;
    for names in &held {
        for name in names {
            assert_eq!(thread.ok(&format!("lock try lock {name}")).await, "false");
        }
    }
    assert!(both(&client, &theirs).try_lock().await.unwrap().is_none());
    for guard in guards {
        assert!(guard.is_held());
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    }
    lock_commands(&theirs).release_lock(&thread, "").await;
    assert!(both(&client, &theirs).try_lock().await.unwrap().is_some());
}
