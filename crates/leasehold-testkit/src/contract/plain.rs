//! The plain lock's scripts, and the native commands that stand in for them.
//!
//! Invariant: the assertions state the behavior of redis-server, with and without native commands.
#![deny(dead_code)]

mod harness;

use std::time::Duration;

use leasehold_proto::recipe::format::Format;
use leasehold_proto::recipe::plain::{self, FENCED, PLAIN, REDLOCK};
use leasehold_proto::{Name, Reply, StoreErrorKind};
use leasehold_store::Heard;

use self::harness::{LISTENS, Plain, QUIET, UNCERTAIN};
use super::counters::{FRESH, ONCE};
use super::lock_harness::{LONG, name, owner};
use super::{Harness, next, until};

behaviors! {
    a_free_plain_lock_is_granted_and_a_held_one_tells_its_value,
    an_expired_plain_lock_is_free,
    a_repeat_finds_its_own_value_and_extends_its_lease,
    a_waiter_marks_the_holder_and_keeps_its_lease,
    a_caller_that_does_not_listen_marks_nothing,
    another_librarys_value_is_never_changed,
    a_release_without_a_mark_sends_no_message,
    a_release_of_a_marked_hold_sends_a_message,
    a_release_of_another_value_changes_nothing,
    an_undo_that_runs_twice_changes_nothing,
    a_partial_release_keeps_the_lock,
    a_renewal_keeps_the_mark_and_never_shortens_the_lease,
    an_exact_lease_may_be_shorter_and_wakes_those_who_marked_the_hold,
    a_forced_release_frees_any_holder_and_wakes_waiters,
    an_inspection_tells_the_remaining_time_and_the_owner,
    a_repeated_fenced_grant_has_the_same_token,
    a_refused_fenced_acquire_marks_and_uses_up_no_token,
    a_young_server_grants_no_part_of_a_redlock,
    several_plain_locks_are_acquired_all_or_none,
    several_plain_locks_of_which_any_is_foreign_are_polled,
    several_plain_locks_are_renewed_all_or_none,
    several_plain_locks_are_released_together,
    a_release_fills_the_list_of_another_library,
    a_release_tells_the_channel_of_another_library,
    a_chosen_value_takes_no_mark_and_its_release_tells,
    a_key_of_another_type_is_refused_or_counts_as_held,
    a_plain_lock_without_an_expiry_is_waited_for_or_reported,
    arguments_of_a_plain_lock_are_checked_before_the_first_write,
}

async fn a_free_plain_lock_is_granted_and_a_held_one_tells_its_value(harness: &Harness<'_>) {
    let plain = Plain::new(harness);
    let value = Plain::value(1, false);
    assert_eq!((value.len(), value.starts_with("lh1-"), value.ends_with("-0")), (28, true, true));
    assert_eq!(plain.acquire(1, FRESH).await, Reply::Nil);
    assert_eq!(plain.held(), value);
    assert!((1..=30_000).contains(&plain.pttl()));
    for context in [FRESH, ONCE] {
        assert_eq!(plain.acquire(2, context).await, Reply::Text(value.clone().into()));
    }
    assert_eq!(plain.held(), value, "who does not listen marks nothing");
    for context in [LISTENS, UNCERTAIN] {
        assert!(matches!(plain.acquire(2, context).await, Reply::Int(1..=30_000)));
    }
}

async fn an_expired_plain_lock_is_free(harness: &Harness<'_>) {
    for context in [FRESH, LISTENS] {
        let plain = Plain::new(harness);
        plain.run_command(&["SET", plain.key(), "another", "PX", "3"]);
        until("the lease to pass", async || (plain.acquire(1, context).await == Reply::Nil).then_some(()))
            .await;
        assert_eq!(plain.held(), Plain::value(1, false));
        plain.run_command(&["DEL", plain.key()]);
    }
}

async fn a_repeat_finds_its_own_value_and_extends_its_lease(harness: &Harness<'_>) {
    let plain = Plain::new(harness);
    plain.acquire_for_longer(1, FRESH).await;
    assert_eq!(plain.acquire(1, UNCERTAIN).await, Reply::Nil);
    assert!(plain.pttl() > 30_000, "it never shortens the lease");
    plain.acquire(2, LISTENS).await;
    plain.run_command(&["PEXPIRE", plain.key(), "20000"]);
    assert_eq!(plain.acquire(1, UNCERTAIN).await, Reply::Nil, "a marked hold is its own too");
    assert!(plain.pttl() > 20_000);
    assert_eq!(plain.held(), Plain::value(1, true));
}

async fn a_waiter_marks_the_holder_and_keeps_its_lease(harness: &Harness<'_>) {
    let plain = Plain::new(harness);
    plain.acquire_for_longer(1, FRESH).await;
    for _ in 0..2 {
        assert!(matches!(plain.acquire(2, LISTENS).await, Reply::Int(30_001..=60_000)));
        assert_eq!(plain.held(), Plain::value(1, true));
        assert!(plain.pttl() > 30_000);
    }
}

async fn a_caller_that_does_not_listen_marks_nothing(harness: &Harness<'_>) {
    let plain = Plain::new(harness);
    plain.acquire(1, FRESH).await;
    for context in [FRESH, ONCE, UNCERTAIN] {
        assert_ne!(plain.acquire(2, context).await, Reply::Nil);
        assert_eq!(plain.held(), Plain::value(1, false));
    }
}

async fn another_librarys_value_is_never_changed(harness: &Harness<'_>) {
    let plain = Plain::new(harness);
    let own = Plain::value(1, false);
    let near = [format!("{own}0"), format!("x{own}"), own.replace("-0", "-2"), own.replace("lh1", "lh2")];
    for value in ["another", "1", "", "lh1-", "lh1--0"].map(str::to_owned).iter().chain(&near) {
        plain.run_command(&["SET", plain.key(), value, "PX", "30000"]);
        let refused = plain.acquire(2, LISTENS).await;
        let polled = matches!(&refused, Reply::Array(items) if matches!(items[..], [Reply::Int(1..=30_000)]));
        assert!(polled, "{value:?}: {refused:?}");
        assert_eq!(plain.acquire(2, FRESH).await, Reply::Text(value.clone().into()));
        assert_eq!(plain.release(2, QUIET).await, Reply::Nil);
        assert_eq!(&plain.held(), value);
        assert!(plain.pttl() > 1_000, "its expiry is its own");
    }
}

async fn a_release_without_a_mark_sends_no_message(harness: &Harness<'_>) {
    let plain = Plain::new(harness);
    let (_listening, mut heard) = plain.listen().await;
    for context in [QUIET, FRESH] {
        plain.acquire(1, FRESH).await;
        assert_eq!(plain.release(1, context).await, Reply::Int(0));
        assert_eq!(plain.run_command(&["EXISTS", plain.key()]), "0");
    }
    plain.hears_nothing(&mut heard).await;
}

async fn a_release_of_a_marked_hold_sends_a_message(harness: &Harness<'_>) {
    let plain = Plain::new(harness);
    let (_listening, mut heard) = plain.listen().await;
    let channel = plain.subject().channels(owner(1))[0].clone();
    for context in [QUIET, FRESH] {
        plain.acquire(1, FRESH).await;
        plain.acquire(2, LISTENS).await;
        assert_eq!(plain.release(1, context).await, Reply::Int(2), "one connection listens");
        assert_eq!(plain.run_command(&["EXISTS", plain.key()]), "0");
        assert_eq!(next(&mut heard).await, Heard::Message(channel.clone(), b"0".to_vec()));
    }
}

async fn a_release_of_another_value_changes_nothing(harness: &Harness<'_>) {
    let plain = Plain::new(harness);
    plain.acquire(1, FRESH).await;
    for context in [QUIET, FRESH] {
        assert_eq!(plain.release(2, context).await, Reply::Nil);
        assert_eq!(plain.held(), Plain::value(1, false));
    }
    plain.acquire(2, LISTENS).await;
    assert_eq!(plain.release(2, QUIET).await, Reply::Nil);
    assert_eq!(plain.held(), Plain::value(1, true));
}

async fn an_undo_that_runs_twice_changes_nothing(harness: &Harness<'_>) {
    let plain = Plain::new(harness);
    plain.acquire(1, FRESH).await;
    assert_eq!(plain.release(1, FRESH).await, Reply::Int(0));
    assert_eq!(plain.release(1, FRESH).await, Reply::Nil);
    plain.acquire(2, FRESH).await;
    assert_eq!(plain.release(1, FRESH).await, Reply::Nil);
    assert_eq!(plain.held(), Plain::value(2, false));
}

async fn a_partial_release_keeps_the_lock(harness: &Harness<'_>) {
    let plain = Plain::new(harness);
    assert_eq!(plain.lock.release(1, 1).await, Reply::Nil);
    plain.acquire(1, FRESH).await;
    assert_eq!(plain.lock.release(1, 1).await, Reply::Int(0));
    plain.acquire(2, LISTENS).await;
    assert_eq!(plain.lock.release(1, 1).await, Reply::Int(0), "a marked hold is its own too");
    assert_eq!(plain.lock.release(2, 1).await, Reply::Nil);
    assert_eq!(plain.held(), Plain::value(1, true));
}

async fn a_renewal_keeps_the_mark_and_never_shortens_the_lease(harness: &Harness<'_>) {
    let plain = Plain::new(harness);
    let ask = plain.subject().recipe.hand_off.expect("its holds pass on");
    let hand_off = async |number| plain.execute(ask(&plain.args(number, FRESH))).await;
    assert_eq!(plain.lock.renew(1, LONG, 0).await, Reply::Int(0));
    assert_eq!(hand_off(1).await, Reply::Int(0));
    assert_eq!(plain.run_command(&["EXISTS", plain.key()]), "0", "a renewal creates nothing");
    plain.acquire(1, FRESH).await;
    assert_eq!(plain.lock.renew(1, 90_000, 0).await, Reply::Int(2));
    assert!(plain.pttl() > 60_000);
    assert_eq!(plain.lock.renew(1, 10, 0).await, Reply::Int(2));
    assert_eq!(hand_off(1).await, Reply::Int(2));
    plain.acquire(2, LISTENS).await;
    assert_eq!(plain.lock.renew(1, 10, 0).await, Reply::Int(4));
    assert_eq!(hand_off(1).await, Reply::Int(4));
    assert!(plain.pttl() > 60_000);
    assert_eq!(plain.lock.renew(1, 120_000, 0).await, Reply::Int(4));
    assert!(plain.pttl() > 90_000);
    assert_eq!(plain.held(), Plain::value(1, true));
    assert_eq!(plain.lock.renew(2, 200_000, 0).await, Reply::Int(-1));
    assert_eq!(hand_off(2).await, Reply::Int(-1));
    assert!(plain.pttl() <= 120_000);
}

async fn an_exact_lease_may_be_shorter_and_wakes_those_who_marked_the_hold(harness: &Harness<'_>) {
    let plain = Plain::new(harness);
    let (_listening, mut heard) = plain.listen().await;
    let expire = plain.subject().recipe.expire.expect("its lease can be set");
    let expire = async |number| plain.execute(expire(&plain.args(number, FRESH))).await;
    assert_eq!(expire(1).await, Reply::Int(0));
    assert_eq!(plain.run_command(&["EXISTS", plain.key()]), "0", "it creates nothing");
    plain.acquire_for_longer(1, FRESH).await;
    assert_eq!(expire(2).await, Reply::Int(-1));
    assert!(plain.pttl() > 30_000);
    assert_eq!(expire(1).await, Reply::Int(2));
    assert!((1..=30_000).contains(&plain.pttl()));
    plain.hears_nothing(&mut heard).await;
    plain.run_command(&["PEXPIRE", plain.key(), "60000"]);
    plain.acquire(2, LISTENS).await;
    assert_eq!(expire(1).await, Reply::Int(4));
    assert!((1..=30_000).contains(&plain.pttl()));
    assert_eq!(plain.held(), Plain::value(1, true));
    let channel = plain.subject().channels(owner(1))[0].clone();
    assert_eq!(next(&mut heard).await, Heard::Message(channel, b"0".to_vec()));
}

async fn a_forced_release_frees_any_holder_and_wakes_waiters(harness: &Harness<'_>) {
    let plain = Plain::new(harness);
    let (_listening, mut heard) = plain.listen().await;
    let channel = plain.subject().channels(owner(1))[0].clone();
    for value in [Plain::value(1, false), "another".to_owned()] {
        plain.run_command(&["SET", plain.key(), &value]);
        assert_eq!(plain.force_release().await, Reply::Int(1));
        assert_eq!(plain.run_command(&["EXISTS", plain.key()]), "0");
        assert_eq!(next(&mut heard).await, Heard::Message(channel.clone(), b"0".to_vec()));
    }
    assert_eq!(plain.force_release().await, Reply::Int(0));
}

async fn an_inspection_tells_the_remaining_time_and_the_owner(harness: &Harness<'_>) {
    let plain = Plain::new(harness);
    let is = |reply: Reply, owns: i64| matches!(&reply, Reply::Array(items) if matches!(items[..], [Reply::Int(1..=30_000), Reply::Int(own)] if own == owns));
    let read = async || plain::read_holder(&plain.execute(plain::holder(&plain.subject().name)).await);
    assert_eq!(plain.inspect(1).await, Reply::Array(vec![Reply::Int(-2), Reply::Int(0)]));
    assert_eq!(read().await, Some(None));
    plain.acquire(1, FRESH).await;
    for _ in 0..2 {
        assert!(is(plain.inspect(1).await, 1) && is(plain.inspect(2).await, 0));
        assert_eq!(read().await, Some(Some(Plain::value(1, false).into())), "shown without its mark");
        plain.acquire(2, LISTENS).await;
    }
    plain.run_command(&["SET", plain.key(), "another"]);
    assert_eq!(plain.inspect(1).await, Reply::Array(vec![Reply::Int(-1), Reply::Int(0)]));
    assert_eq!(read().await, Some(Some(b"another".to_vec())));
}

fn fenced<'a>(harness: &'a Harness<'a>) -> (Plain<'a>, Name) {
    let fence = name(harness, ":fence");
    let mut format = Format::default();
    format.fence = Some(fence.clone());
    (Plain::of(harness, &FENCED, format), fence)
}

fn granted(token: &str) -> Reply {
    Reply::Array(vec![Reply::Int(-2), Reply::Text(token.into())])
}

async fn a_repeated_fenced_grant_has_the_same_token(harness: &Harness<'_>) {
    let (plain, fence) = fenced(harness);
    assert_eq!(plain.acquire(1, FRESH).await, granted("1"));
    assert_eq!(plain.acquire(1, UNCERTAIN).await, granted("1"));
    plain.acquire(2, LISTENS).await;
    assert_eq!(plain.acquire(1, UNCERTAIN).await, granted("1"), "a marked hold is its own too");
    plain.release(1, FRESH).await;
    assert_eq!(plain.run_command(&["INCRBY", fence.as_str(), "5"]), "6");
    for _ in 0..2 {
        assert_eq!(plain.lock.acquire_with_tokens(3, 4).await, Ok(granted("7")), "the first of four");
        assert_eq!(plain.run_command(&["GET", fence.as_str()]), "10");
    }
    plain.release(3, QUIET).await;
    plain.run_command(&["SET", fence.as_str(), "none"]);
    assert!(plain.lock.acquire_with_tokens(4, 1).await.is_err());
    assert_eq!(plain.run_command(&["EXISTS", plain.key()]), "0", "no grant lacks a token");
}

async fn a_refused_fenced_acquire_marks_and_uses_up_no_token(harness: &Harness<'_>) {
    let (plain, fence) = fenced(harness);
    plain.acquire(1, FRESH).await;
    for (context, is_marked) in [(FRESH, false), (LISTENS, true)] {
        let refused = plain.acquire(2, context).await;
        let is_refused = matches!(&refused, Reply::Array(items) if matches!(items[..], [Reply::Int(1..), _]));
        assert!(is_refused, "{refused:?}");
        assert_eq!(plain.held(), Plain::value(1, is_marked));
    }
    assert!(plain.pttl() > 1_000);
    plain.run_command(&["SET", plain.key(), "another", "PX", "30000"]);
    let polled = plain.acquire(2, LISTENS).await;
    assert!(matches!(&polled, Reply::Array(items) if items.len() == 3), "{polled:?}");
    assert_eq!(plain.held(), "another");
    assert_eq!(plain.run_command(&["GET", fence.as_str()]), "1");
}

async fn a_young_server_grants_no_part_of_a_redlock(harness: &Harness<'_>) {
    let plain = Plain::of(harness, &REDLOCK, Format::default());
    let long = Duration::from_secs(1_000_000_000);
    let young = plain.lock.acquire_with_uptime(1, long).await;
    assert!(matches!(&young, Reply::Array(items) if matches!(items[..], [Reply::Int(1..)])), "{young:?}");
    assert_eq!(plain.run_command(&["EXISTS", plain.key()]), "0");
    for _ in 0..2 {
        assert_eq!(plain.acquire(1, FRESH).await, Reply::Nil);
    }
    assert_eq!(plain.lock.acquire_with_uptime(1, long).await, Reply::Nil, "what it holds it holds");
    assert!(matches!(plain.acquire(2, FRESH).await, Reply::Int(1..=30_000)));
    assert_eq!(plain.held(), Plain::value(1, false));
    assert!(matches!(plain.acquire(2, LISTENS).await, Reply::Int(1..=30_000)));
    assert_eq!(plain.held(), Plain::value(1, true));
    plain.run_command(&["SET", plain.key(), "another", "PX", "30000"]);
    assert!(matches!(plain.acquire(2, LISTENS).await, Reply::Int(1..=200)), "it is asked for again soon");
    assert_eq!(plain.held(), "another");
}

async fn several_plain_locks_are_acquired_all_or_none(harness: &Harness<'_>) {
    let plain = Plain::several(harness);
    let keys = plain.keys();
    let [own, other] = [1, 2].map(|number| Plain::value(number, false));
    plain.run_command(&["SET", &keys[1], &other, "PX", "30000"]);
    assert!(matches!(plain.acquire(1, FRESH).await, Reply::Int(1..=30_000)));
    assert_eq!(plain.all_held(), ["", &other, ""]);
    assert!(matches!(plain.acquire(1, LISTENS).await, Reply::Int(1..=30_000)));
    assert_eq!(plain.all_held(), ["", &Plain::value(2, true), ""]);
    assert!(plain.lock.pttl(&keys[1]) > 1_000);
    plain.run_command(&["SET", &keys[2], "another", "PX", "30000"]);
    let polled = plain.acquire(1, LISTENS).await;
    assert!(matches!(&polled, Reply::Array(items) if items.len() == 1), "{polled:?}");
    plain.run_command(&["SET", &keys[2], "another"]);
    let a_day = Reply::Array(vec![Reply::Int(86_400_000)]);
    assert_eq!(plain.acquire(1, LISTENS).await, a_day, "a key without an expiry is a hold");
    assert_eq!(plain.all_held()[2], "another");
    keys[1..].iter().for_each(|key| drop(plain.run_command(&["DEL", key])));
    for _ in 0..2 {
        assert_eq!(plain.acquire(1, UNCERTAIN).await, Reply::Nil);
        assert_eq!(plain.all_held(), [&*own; 3]);
    }
}

async fn several_plain_locks_of_which_any_is_foreign_are_polled(harness: &Harness<'_>) {
    let plain = Plain::several(harness);
    let keys = plain.keys();
    for foreign in 0..2 {
        let own = Plain::value(2, false);
        keys.iter().for_each(|key| drop(plain.run_command(&["SET", key, &own, "PX", "30000"])));
        plain.run_command(&["SET", &keys[foreign], "another", "PX", "30000"]);
        let polled = plain.acquire(1, LISTENS).await;
        assert!(matches!(&polled, Reply::Array(items) if items.len() == 1), "{foreign}: {polled:?}");
    }
}

async fn several_plain_locks_are_renewed_all_or_none(harness: &Harness<'_>) {
    let plain = Plain::several(harness);
    assert_eq!(plain.lock.renew(1, LONG, 0).await, Reply::Int(0));
    plain.acquire(1, FRESH).await;
    plain.acquire(2, LISTENS).await;
    assert_eq!(plain.all_held(), [&*Plain::value(1, true); 3]);
    assert_eq!(plain.lock.renew(1, 90_000, 0).await, Reply::Int(2));
    assert!(plain.keys().iter().all(|key| plain.lock.pttl(key) > 60_000));
    plain.run_command(&["SET", &plain.keys()[1], "another", "PX", "30000"]);
    assert_eq!(plain.lock.renew(1, LONG, 0).await, Reply::Int(-1));
    assert_eq!(plain.all_held(), ["", "another", ""], "what is left is given back");
}

async fn several_plain_locks_are_released_together(harness: &Harness<'_>) {
    let plain = Plain::several(harness);
    let (_listening, mut heard) = plain.listen().await;
    plain.acquire(1, FRESH).await;
    // A waiter has marked them.
    plain.acquire(2, LISTENS).await;
    assert_eq!(plain.release(2, FRESH).await, Reply::Nil);
    assert_eq!(plain.release(1, FRESH).await, Reply::Int(2), "one connection listens to each");
    let mut told = Vec::new();
    for _ in 0..3 {
        told.push(next(&mut heard).await);
    }
    for channel in plain.subject().channels(owner(1)) {
        assert!(told.contains(&Heard::Message(channel.clone(), b"0".to_vec())), "{channel} of {told:?}");
    }
    assert_eq!(plain.all_held(), ["", "", ""]);
    assert_eq!(plain.release(1, FRESH).await, Reply::Nil);
}

async fn a_release_fills_the_list_of_another_library(harness: &Harness<'_>) {
    let list = name(harness, ":signal");
    let mut format = Format::default();
    format.list = Some(list.clone());
    let plain = Plain::of(harness, &PLAIN, format);
    for _ in 0..2 {
        plain.acquire(1, FRESH).await;
        assert_eq!(plain.release(1, QUIET).await, Reply::Int(0));
        assert_eq!(plain.run_command(&["LRANGE", list.as_str(), "0", "-1"]), "1", "one, however many");
        assert!((1..=1_000).contains(&plain.lock.pttl(list.as_str())));
        assert_eq!(plain.run_command(&["EXISTS", plain.key()]), "0");
    }
    plain.run_command(&["DEL", list.as_str()]);
    assert_eq!(plain.release(1, QUIET).await, Reply::Nil);
    assert_eq!(plain.run_command(&["EXISTS", list.as_str()]), "0", "a release of nothing tells nobody");
    plain.acquire(1, FRESH).await;
    assert_eq!(plain.force_release().await, Reply::Int(1));
    assert_eq!(plain.run_command(&["LLEN", list.as_str()]), "1");
}

async fn a_release_tells_the_channel_of_another_library(harness: &Harness<'_>) {
    // A channel of another library is a plain one everywhere, so the test listens only where the store's are plain.
    let mut format = Format::default();
    format.channel = Some(format!("{}:told", Plain::new(harness).key()).into());
    let plain = Plain::of(harness, &PLAIN, format);
    plain.acquire(1, FRESH).await;
    assert_eq!(plain.release(1, QUIET).await, Reply::Int(0));
    assert_eq!(plain.run_command(&["EXISTS", plain.key()]), "0");
}

async fn a_chosen_value_takes_no_mark_and_its_release_tells(harness: &Harness<'_>) {
    let mut format = Format::default();
    format.token = Some("order-7".into());
    let plain = Plain::of(harness, &PLAIN, format);
    let (_listening, mut heard) = plain.listen().await;
    assert_eq!(plain.acquire(1, FRESH).await, Reply::Nil);
    assert_eq!(plain.held(), "order-7");
    assert!(matches!(Plain::new(harness).acquire(2, LISTENS).await, Reply::Array(_)));
    assert_eq!(plain.held(), "order-7");
    assert_eq!(plain.lock.renew(1, LONG, 0).await, Reply::Int(2));
    assert_eq!(plain.release(1, QUIET).await, Reply::Int(2));
    assert!(matches!(next(&mut heard).await, Heard::Message(..)));
}

async fn a_key_of_another_type_is_refused_or_counts_as_held(harness: &Harness<'_>) {
    let mut format = Format::default();
    format.holds_others = true;
    let (plain, beside) = (Plain::new(harness), Plain::of(harness, &PLAIN, format));
    plain.run_command(&["ZADD", plain.key(), "1", "symfony"]);
    let calls = [FRESH, LISTENS].map(|context| (PLAIN.acquire)(&plain.args(1, context)));
    let releases = [FRESH, QUIET].map(|context| (PLAIN.release)(&plain.args(1, context).count(0)));
    for call in calls
        .into_iter()
        .chain(releases)
        .chain([plain::force_release(&plain.subject().name, &Format::default())])
    {
        let error = harness.run(call).await.expect_err("it is no string");
        assert_eq!(error.kind, StoreErrorKind::WrongType, "{error}");
    }
    for context in [FRESH, LISTENS] {
        let held = beside.acquire(1, context).await;
        assert_eq!(held, Reply::Array(vec![Reply::Int(86_400_000)]), "it has no expiry");
    }
    plain.run_command(&["PEXPIRE", plain.key(), "20000"]);
    let held = beside.acquire(1, LISTENS).await;
    assert!(
        matches!(&held, Reply::Array(items) if matches!(items[..], [Reply::Int(1..=20_000)])),
        "{held:?}"
    );
    assert_eq!(plain.run_command(&["ZRANGE", plain.key(), "0", "-1"]), "symfony");
}

async fn a_plain_lock_without_an_expiry_is_waited_for_or_reported(harness: &Harness<'_>) {
    let mut format = Format::default();
    format.fails_endless = true;
    let (plain, failing) = (Plain::new(harness), Plain::of(harness, &PLAIN, format));
    plain.run_command(&["SET", plain.key(), "another"]);
    assert_eq!(plain.acquire(1, LISTENS).await, Reply::Array(vec![Reply::Int(86_400_000)]));
    for context in [FRESH, ONCE, LISTENS] {
        assert_eq!(failing.acquire(1, context).await, Reply::Int(-1));
    }
    assert_eq!((plain.held(), plain.pttl()), ("another".to_owned(), -1));
    plain.run_command(&["SET", plain.key(), &Plain::value(2, false)]);
    assert_eq!(plain.acquire(1, LISTENS).await, Reply::Int(86_400_000));
    assert_eq!((plain.held(), plain.pttl()), (Plain::value(2, true), -1));
}

async fn arguments_of_a_plain_lock_are_checked_before_the_first_write(harness: &Harness<'_>) {
    let plain = Plain::new(harness);
    let calls = || {
        let acquires = [FRESH, LISTENS].map(|context| (PLAIN.acquire)(&plain.args(1, context)));
        let (args, expire) = (plain.args(1, FRESH), PLAIN.expire.expect("its lease can be set"));
        acquires.into_iter().chain([(PLAIN.renew)(&args), (expire)(&args)])
    };
    for lease_ms in ["0", "-1", "1.5", "x", ""] {
        for mut call in calls() {
            call.set_arg("lease_ms", lease_ms);
            let error = harness.run(call).await.expect_err("it is no lease");
            // A native command is refused in the words of the server.
            assert!(matches!(error.kind, StoreErrorKind::Server | StoreErrorKind::WrongType), "{error:?}");
        }
        assert_eq!(plain.run_command(&["EXISTS", plain.key()]), "0");
    }
}
