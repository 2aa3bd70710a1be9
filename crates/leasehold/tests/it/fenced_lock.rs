//! The fenced lock, whose tokens grow with every grant, whichever owner gets it.

use std::sync::{Arc, Mutex};

use leasehold::error::{AcquireErrorKind, OperationErrorKind};
use leasehold::fenced_writes::{FencedScript, Reply};
use leasehold::lock::Tokens;
use leasehold::{AcquireError, FencedWriteError};

use crate::support::{Fixture, connect, connect_with, is_free, ms, on_both, pttl, run_command, soon};

const TOKEN: &str = "redisson_lock_token:{job}";

on_both! {
    async {
        tokens_grow_by_one_with_each_grant,
        a_re_entry_keeps_the_token,
        a_token_continues_after_the_last_java_token,
        a_refused_acquire_uses_up_no_token,
        an_expired_hold_and_the_next_one_have_different_tokens,
        a_lost_counter_starts_again,
        a_hybrid_token_survives_a_lost_counter,
        a_hybrid_token_is_above_a_counter_that_ran_ahead,
        a_collected_counter_expires,
        a_token_key_without_a_number_is_rejected,
        tokens_of_many_waiters_are_all_different,
        tokens_grow_from_holder_to_holder_of_a_hold_that_passes_on,
        a_body_has_the_token,
    }
}

async fn tokens_grow_by_one_with_each_grant(server: Fixture) {
    let lock = connect(&server).await.fenced_lock("job");
    for expected in 1..=5 {
        let guard = lock.lock().await.unwrap();
        assert_eq!(guard.token(), expected);
        guard.release().await.unwrap();
    }
    assert!(is_free(&server, "job"));
    assert_eq!((server.cli(&["GET", TOKEN]).as_str(), pttl(&server, TOKEN)), ("5", -1));
}

async fn a_re_entry_keeps_the_token(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.fenced_lock("job").owned_by(&client.owner());
    let (outer, inner) = (lock.lock().await.unwrap(), lock.lock().await.unwrap());
    assert_eq!((outer.token(), inner.token()), (1, 1));
    assert_eq!(server.cli(&["GET", TOKEN]), "1");
    drop(inner);
    assert_eq!(outer.token(), 1);
}

async fn a_token_continues_after_the_last_java_token(server: Fixture) {
    run_command(&server, &["SET", TOKEN, "41"]);
    let guard = connect(&server).await.fenced_lock("job").lock().await.unwrap();
    assert_eq!(guard.token(), 42);
    assert_eq!(server.cli(&["INCR", TOKEN]), "43", "and Java goes on where we left it");
}

async fn a_refused_acquire_uses_up_no_token(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let guard = one.fenced_lock("job").lock().await.unwrap();
    for _ in 0..3 {
        assert!(other.fenced_lock("job").try_lock().await.unwrap().is_none());
    }
    assert_eq!(server.cli(&["GET", TOKEN]), guard.token().to_string());
}

async fn an_expired_hold_and_the_next_one_have_different_tokens(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let late = one.fenced_lock("job").lease(ms(100)).lock().await.unwrap();
    let next = soon("the next grant", other.fenced_lock("job").lock()).await.unwrap();
    assert!(!late.is_held());
    assert!(next.token() > late.token());
}

async fn a_lost_counter_starts_again(server: Fixture) {
    let lock = connect(&server).await.fenced_lock("job");
    lock.lock().await.unwrap().release().await.unwrap();
    run_command(&server, &["FLUSHALL"]);
    assert_eq!(lock.lock().await.unwrap().token(), 1, "which is why there are hybrid tokens");
}

async fn a_hybrid_token_survives_a_lost_counter(server: Fixture) {
    let lock = connect(&server).await.fenced_lock("job").tokens(Tokens::Hybrid);
    let guard = lock.lock().await.unwrap();
    let before = guard.token();
    guard.release().await.unwrap();
    assert_eq!(pttl(&server, TOKEN), -1);
    run_command(&server, &["DEL", TOKEN]);
    crate::support::a_lease_passes(&server, ms(2)).await;
    let guard = lock.lock().await.unwrap();
    assert!(guard.token() > before);
    let stored: u64 = server.cli(&["INCR", TOKEN]).parse().unwrap();
    assert_eq!(stored, guard.token() + 1, "Java counts on from there");
}

async fn a_hybrid_token_is_above_a_counter_that_ran_ahead(server: Fixture) {
    run_command(&server, &["SET", TOKEN, "5000000000000000"]);
    let guard = connect(&server).await.fenced_lock("job").tokens(Tokens::Hybrid).lock().await.unwrap();
    assert_eq!(guard.token(), 5_000_000_000_000_001);
    assert_eq!(server.cli(&["GET", TOKEN]), "5000000000000001", "in full, not as 5e+15");
}

async fn a_collected_counter_expires(server: Fixture) {
    let lock = connect(&server).await.fenced_lock("job").tokens(Tokens::HybridCollected);
    let _guard = lock.lock().await.unwrap();
    assert!((86_000_000..=86_400_000).contains(&pttl(&server, TOKEN)));
}

async fn a_token_key_without_a_number_is_rejected(server: Fixture) {
    let lock = connect(&server).await.fenced_lock("job");
    for value in ["many", "-5", "9007199254740991"] {
        run_command(&server, &["SET", TOKEN, value]);
        assert!(
            matches!(lock.try_lock().await, Err(AcquireError { kind: AcquireErrorKind::OtherKind(_), .. })),
            "{value}"
        );
        assert!(is_free(&server, "job"), "nothing was taken");
    }
    run_command(&server, &["DEL", TOKEN]);
    run_command(&server, &["RPUSH", TOKEN, "1"]);
    assert!(matches!(lock.try_lock().await, Err(AcquireError { kind: AcquireErrorKind::OtherKind(_), .. })));
    assert!(is_free(&server, "job"));
}

async fn tokens_of_many_waiters_are_all_different(server: Fixture) {
    let clients = [connect(&server).await, connect(&server).await];
    let tasks: Vec<_> = (0..20)
        .map(|task| {
            let lock = clients[task % 2].fenced_lock("job");
            tokio::spawn(async move {
                let guard = lock.lock().await.unwrap();
                let token = guard.token();
                guard.release().await.unwrap();
                token
            })
        })
        .collect();
    let mut tokens = Vec::new();
    for task in tasks {
        tokens.push(soon("a grant", task).await.unwrap());
    }
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 20);
}

async fn tokens_grow_from_holder_to_holder_of_a_hold_that_passes_on(server: Fixture) {
    let client = connect(&server).await;
    let holders = Arc::new(Mutex::new(Vec::new()));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (lock, holders) = (client.fenced_lock("job"), Arc::clone(&holders));
            tokio::spawn(async move {
                for _ in 0..50 {
                    let guard = lock.lock().await.unwrap();
                    holders.lock().unwrap().push((guard.token(), guard.wire_owner()));
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        soon("the task's last grant", task).await.unwrap();
    }
    let holders = holders.lock().unwrap();
    assert!(holders.is_sorted_by(|(before, _), (after, _)| before < after), "{holders:?}");
    let grants = holders.chunk_by(|(_, before), (_, after)| before == after);
    let longest = grants.clone().map(<[_]>::len).max().unwrap();
    println!("{} holders of {} holds, at most {longest} of one", holders.len(), grants.count());
    assert!((2..=16).contains(&longest), "{longest}");
    let last: u64 = server.cli(&["GET", TOKEN]).parse().unwrap();
    assert!(last >= holders.last().unwrap().0, "{last}");
}

async fn a_body_has_the_token(server: Fixture) {
    let client = connect_with(leasehold::Client::builder(), &server.url()).await;
    let token = client.fenced_lock("job").run(async |guard| guard.token()).await.unwrap();
    assert_eq!(token, 1);
}

#[tokio::test]
async fn a_newer_token_excludes_the_older_one_for_every_kind_of_write() {
    for server in [Fixture::redis(), Fixture::embedded()] {
        let client = connect(&server).await;
        let (old, new) = (client.fenced(7), client.fenced(8));
        old.set("stock", "1").await.unwrap();
        old.hset("order", "state", "paid").await.unwrap();
        old.set("stock", "2").await.unwrap();
        new.set("stock", "3").await.unwrap();
        let error = old.set("stock", "4").await.unwrap_err();
        let said =
            "key \"stock\" not written: a newer holder, with token 8, has written it; the lock is lost";
        assert_eq!((error.to_string().as_str(), error.is_lost()), (said, true));
        new.hset("order", "state", [0, 255]).await.unwrap();
        let error = old.hset("order", "other", "x").await.unwrap_err();
        assert!(matches!(error, FencedWriteError::Stale { newest: 8, .. }), "of the whole hash: {error}");
        assert_eq!(server.cli(&["GET", "stock"]), "3");
        assert_eq!(server.cli(&["HLEN", "order"]), "1");
        assert_eq!(server.cli(&["GET", "leasehold_fence:{stock}"]), "8");

        let script = FencedScript::new("return {KEYS[1], #KEYS, ARGV[1], #ARGV}");
        let reply = new.run(&script, ["stock"], ["x"]).await.unwrap();
        let text = |text: &str| Reply::Text(text.into());
        assert_eq!(reply, Reply::Array(vec![text("stock"), Reply::Int(1), text("x"), Reply::Int(1)]));
        let error = old.run(&script, ["stock"], ["x"]).await.unwrap_err();
        assert!(matches!(error, FencedWriteError::Stale { newest: 8, .. }), "{error}");
    }
}

#[tokio::test]
async fn a_fenced_write_does_not_change_a_key_of_another_type() {
    for server in [Fixture::redis(), Fixture::embedded()] {
        let client = connect(&server).await;
        run_command(&server, &["RPUSH", "list", "precious"]);
        for refused in
            [client.fenced(1).set("list", "x").await, client.fenced(1).hset("list", "f", "x").await]
        {
            let Err(FencedWriteError::Operation(error)) = refused else { panic!("{refused:?}") };
            assert!(matches!(error.kind, OperationErrorKind::OtherKind(_)), "{error}");
        }
        assert_eq!(server.cli(&["LRANGE", "list", "0", "-1"]), "precious");
        assert_eq!(server.cli(&["KEYS", "leasehold_fence*"]), "", "no older token is shut out by that");
    }
}

#[tokio::test]
async fn a_script_that_failed_midway_may_have_written() {
    let script = FencedScript::new("redis.call('set', KEYS[1], 'x') return redis.call('incr', KEYS[2])");
    for server in [Fixture::redis(), Fixture::embedded()] {
        let client = connect(&server).await;
        run_command(&server, &["RPUSH", "{stock}:list", "precious"]);
        let keys = ["stock", "{stock}:list"].map(|key| leasehold::Name::raw_redisson(key).unwrap());
        let failed = client.fenced(1).run(&script, keys, [""]).await.unwrap_err();
        let FencedWriteError::Operation(error) = failed else { panic!("{failed:?}") };
        assert!(matches!(error.kind, OperationErrorKind::Unknown(_)), "{error}");
        assert_eq!(server.cli(&["GET", "stock"]), "x");
    }
}

#[tokio::test]
async fn a_paused_holder_cannot_write_after_the_next_one() {
    let server = Fixture::redis();
    let (one, other) = (connect(&server).await, connect(&server).await);
    let late = one.fenced_lock("job").lease(ms(100)).lock().await.unwrap();
    let next = soon("the next grant", other.fenced_lock("job").lock()).await.unwrap();
    next.fenced().set("result", "newer").await.unwrap();
    let refused = late.fenced().set("result", "older").await;
    assert!(matches!(refused, Err(FencedWriteError::Stale { newest, .. }) if newest == next.token()));
    assert_eq!(server.cli(&["GET", "result"]), "newer");
}
