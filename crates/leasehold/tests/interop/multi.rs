//! Several locks at once and Redisson's `RedissonMultiLock`. Neither writes keys of its own, so each side sees the
//! other as holders and waiters of the members.

use std::time::Duration;

use leasehold::multi::Member;
use leasehold::{Client, MultiLock, Name, ReleaseOutcome};

use crate::bench::{Bench, on_each_server};
use crate::crowd::counts_exactly;
use crate::support::{a_lease_passes, channel, eventually, fields, is_free, ms, soon};
use crate::turns::{Turns, java_hands_over_to_rust, rust_hands_over_to_java};

const SHORT_LEASE: Duration = ms(1_500);

on_each_server! {
    members_that_are_taken_one_by_one_are_handed_over_in_both_directions,
    members_that_are_taken_in_one_step_are_handed_over_in_both_directions,
    members_of_several_kinds_are_handed_over_in_both_directions,
    java_threads_and_rust_tasks_lose_no_count_when_members_are_taken_one_by_one,
    java_threads_and_rust_tasks_lose_no_count_when_members_are_taken_in_one_step,
    two_that_take_the_members_in_opposite_orders_both_come_through,
    a_member_that_either_side_holds_alone_keeps_the_other_from_all,
    both_watchdogs_keep_all_members_for_several_leases,
}

/// Two names. With `together` they share a hash tag, so one script can acquire both.
fn names(bench: &Bench, together: bool) -> [String; 2] {
    let tag = bench.name("accounts");
    ["first", "second"]
        .map(|name| if together { format!("{{{tag}}}:{name}") } else { format!("{tag}-{name}") })
}

fn list(names: &[String; 2]) -> String {
    format!("lock:{},lock:{}", names[0], names[1])
}

/// The commands for this list. Waiters listen at its first name.
fn turns_of(list: &str, first: &str) -> Turns {
    let channel =
        if first.contains('{') { format!("redisson_lock__channel:{first}") } else { channel(first) };
    Turns { name: first.to_owned(), ..Turns::of_lock("multi", list, Some(channel)) }
}

fn turns(names: &[String; 2]) -> Turns {
    turns_of(&list(names), &names[0])
}

fn both(client: &Client, names: &[String; 2]) -> MultiLock {
    MultiLock::of(names.each_ref().map(|name| Member::from(client.lock(Name::raw_redisson(name).unwrap()))))
}

async fn members_that_are_taken_one_by_one_are_handed_over_in_both_directions(bench: Bench) {
    hand_over(&bench, &names(&bench, false), 2).await;
}

async fn members_that_are_taken_in_one_step_are_handed_over_in_both_directions(bench: Bench) {
    hand_over(&bench, &names(&bench, true), 1).await;
}

async fn hand_over(bench: &Bench, names: &[String; 2], guards: usize) {
    let (client, peer) = (bench.client().await, bench.peer("").await);
    let (lock, thread) = (both(&client, names), peer.thread("a"));
    let acquire = async move { lock.lock().await.unwrap() };
    let guard = java_hands_over_to_rust(bench, &turns(names), &thread, acquire).await;
    assert_eq!(guard.as_ref().len(), guards);
    for name in names {
        assert_eq!(fields(bench.server(), name).len(), 1);
        assert_eq!(thread.ok(&format!("lock try lock {name}")).await, "false");
    }
    let give_back = async {
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    };
    rust_hands_over_to_java(bench, &turns(names), &thread, give_back).await;
    assert!(names.iter().all(|name| is_free(bench.server(), name)));
}

async fn members_of_several_kinds_are_handed_over_in_both_directions(bench: Bench) {
    let (client, peer) = (bench.client().await, bench.peer("").await);
    let [plain, fair, prices] = ["a-plain", "b-fair", "c-prices"].map(|stem| bench.name(stem));
    let lock = MultiLock::of([
        client.lock(&*plain).into(),
        client.fair_lock(&*fair).into(),
        client.rw_lock(&*prices).write_lock().into(),
    ]);
    let list = format!("lock:{plain},fair:{fair},write:{prices}");
    let turns = turns_of(&list, &plain);
    let waiting = lock.clone();
    let acquire = async move { waiting.lock().await.unwrap() };
    let guard = java_hands_over_to_rust(&bench, &turns, &peer.thread("a"), acquire).await;
    rust_hands_over_to_java(&bench, &turns, &peer.thread("a"), async { drop(guard) }).await;
    assert!(lock.try_lock().await.unwrap().is_some());
}

async fn java_threads_and_rust_tasks_lose_no_count_when_members_are_taken_one_by_one(bench: Bench) {
    crowd(&bench, &names(&bench, false)).await;
}

async fn java_threads_and_rust_tasks_lose_no_count_when_members_are_taken_in_one_step(bench: Bench) {
    crowd(&bench, &names(&bench, true)).await;
}

async fn crowd(bench: &Bench, names: &[String; 2]) {
    let clients = [bench.client().await, bench.client().await];
    let locks = clients.each_ref().map(|client| both(client, names));
    counts_exactly(bench, &format!("crowd lock multi {}", list(names)), move |client, tally| {
        let lock = locks[client].clone();
        async move {
            let guard = lock.lock().await.unwrap();
            tally.count().await;
            assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
        }
    })
    .await;
    assert!(names.iter().all(|name| is_free(bench.server(), name)));
}

/// Redisson acquires members in the order of its list. In a list with another order than leasehold's, Redisson gives
/// way. After a while it releases its members and starts again.
async fn two_that_take_the_members_in_opposite_orders_both_come_through(bench: Bench) {
    let (client, peer) = (bench.client().await, bench.peer("").await);
    let [first, second] = names(&bench, false);
    let in_the_way = client.lock(&*first).lock().await.unwrap();
    // Java has the second lock and waits for the first. Rust is about to have the first and wait for the second.
    let thread = peer.thread("a");
    let reversed = format!("lock:{second},lock:{first}");
    let theirs = thread.ask(&format!("lock acquire multi {reversed}"));
    let lock = both(&client, &[first.clone(), second.clone()]);
    eventually("Java to have the second", || !is_free(bench.server(), &second)).await;
    let ours = tokio::spawn(async move { lock.lock().await.unwrap() });
    drop(in_the_way);
    let release = async {
        let guard = soon("Rust to come through", ours).await.unwrap();
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    };
    let give_back = async {
        soon("Java to come through", theirs.ok()).await;
        thread.ok(&format!("lock release multi {reversed}")).await;
    };
    tokio::join!(release, give_back);
    assert!(is_free(bench.server(), &first) && is_free(bench.server(), &second));
}

async fn a_member_that_either_side_holds_alone_keeps_the_other_from_all(bench: Bench) {
    let (client, peer) = (bench.client().await, bench.peer("").await);
    for together in [false, true] {
        let names = names(&bench, together);
        let (lock, thread) = (both(&client, &names), peer.thread("a"));
        let second = client.lock(Name::raw_redisson(&names[1]).unwrap()).lock().await.unwrap();
        assert_eq!(thread.ok(&format!("lock try multi {}", list(&names))).await, "false");
        assert!(is_free(bench.server(), &names[0]), "Java has given back what it had");
        assert_eq!(second.release().await.unwrap(), ReleaseOutcome::Released);
        assert_eq!(thread.ok(&format!("lock try lock {}", names[1])).await, "true");
        assert!(lock.try_lock().await.unwrap().is_none());
        assert!(lock.try_lock_for(ms(100)).await.unwrap().is_none());
        let back = || is_free(bench.server(), &names[0]);
        eventually("what was had to be given back", back).await;
        thread.ok(&format!("lock release lock {}", names[1])).await;
        assert!(lock.try_lock().await.unwrap().is_some());
    }
}

async fn both_watchdogs_keep_all_members_for_several_leases(bench: Bench) {
    let client = bench.client().await;
    let peer = bench.peer(&format!("watchdog={}", SHORT_LEASE.as_millis())).await;
    let thread = peer.thread("a");
    let mut guards = Vec::new();
    let mut held = Vec::new();
    for together in [false, true] {
        let names = names(&bench, together);
        let members = names
            .each_ref()
            .map(|name| Member::from(client.lock(Name::raw_redisson(name).unwrap()).watchdog(SHORT_LEASE)));
        guards.push(MultiLock::of(members).lock().await.unwrap());
        held.push(names);
    }
    let theirs = names(&bench, true);
    turns(&theirs).take(&thread).await;
    a_lease_passes(bench.server(), 3 * SHORT_LEASE).await;
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
    turns(&theirs).give_back(&thread, "").await;
    assert!(both(&client, &theirs).try_lock().await.unwrap().is_some());
}
