//! Transfers: the lock passes to a successor and is free at no instant.

use std::convert::Infallible;

use leasehold::Term;
use leasehold::election::Asked;
use leasehold::error::TransferErrorKind;

use crate::election::{Bodies, NAME, candidate};
use crate::support::{Fixture, Subscriber, eventually, is_free, on_both, run_command, soon};

on_both! {
    async {
        a_hundred_transfers_pass_the_term_on,
        a_transfer_to_an_unknown_candidate_keeps_the_term,
        a_transfer_to_oneself_changes_nothing,
        a_transfer_of_a_lost_term_is_refused,
        a_third_candidate_does_not_come_between,
        a_body_passes_its_term_on,
        another_process_asks_for_a_transfer,
        a_successor_that_left_frees_the_lock_soon,
    }
}

/// Passes a term to and fro.
async fn pass_to_and_fro(server: &Fixture, rounds: u32) -> Term {
    let (_one, first) = candidate(server, "a").await;
    let (_other, second) = candidate(server, "b").await;
    let mut term = first.campaign().await.unwrap();
    for round in 0..rounds {
        let (next, to) = if round % 2 == 0 { (&second, "b") } else { (&first, "a") };
        let pass = async {
            while let Err(error) = term.transfer_to(to).await {
                assert!(matches!(error.kind, TransferErrorKind::NoCandidate { .. }), "{error}");
            }
            assert!(!term.is_valid());
        };
        let (elected, ()) = soon("a transfer", async { tokio::join!(next.campaign(), pass) }).await;
        let elected = elected.unwrap();
        assert!(elected.token() > term.token() && elected.is_valid());
        term = elected;
    }
    term
}

async fn a_hundred_transfers_pass_the_term_on(server: Fixture) {
    let term = pass_to_and_fro(&server, 100).await;
    assert!(term.is_valid() && !is_free(&server, NAME));
}

/// The server tells each change of the key, a deletion included.
#[tokio::test]
async fn a_thousand_transfers_free_the_lock_at_no_instant() {
    const ROUNDS: u32 = 1_000;
    let server = Fixture::redis();
    run_command(&server, &["CONFIG", "SET", "notify-keyspace-events", "KA"]);
    let mut changes = Subscriber::start(&server, &format!("__keyspace@0__:{NAME}"));
    let _term = pass_to_and_fro(&server, ROUNDS).await;
    run_command(&server, &["DEL", NAME]);
    let mut passed = 0;
    loop {
        match changes.message().as_str() {
            "hdel" => passed += 1,
            "del" | "expired" => break,
            _ => {}
        }
    }
    println!("{passed} transfers, and the key was there until the test deleted it");
    assert_eq!(passed, ROUNDS, "the key was gone in between");
}

async fn a_transfer_to_an_unknown_candidate_keeps_the_term(server: Fixture) {
    let (_client, election) = candidate(&server, "a").await;
    let term = election.campaign().await.unwrap();
    let error = term.transfer_to("nobody").await.unwrap_err();
    assert!(matches!(error.kind, TransferErrorKind::NoCandidate { .. }) && error.is_retryable());
    assert!(term.is_valid());
}

async fn a_transfer_to_oneself_changes_nothing(server: Fixture) {
    let (_client, election) = candidate(&server, "a").await;
    let term = election.campaign().await.unwrap();
    term.transfer_to("a").await.unwrap();
    assert!(term.is_valid());
}

async fn a_transfer_of_a_lost_term_is_refused(server: Fixture) {
    let (_client, election) = candidate(&server, "a").await;
    let term = election.campaign().await.unwrap();
    run_command(&server, &["DEL", NAME]);
    soon("the loss", term.lost()).await;
    assert_eq!(term.transfer_to("b").await.unwrap_err().kind, TransferErrorKind::NotLeading);
}

async fn a_third_candidate_does_not_come_between(server: Fixture) {
    let (_one, first) = candidate(&server, "a").await;
    let term = first.campaign().await.unwrap();
    let mut others = Vec::new();
    for name in ["b", "c", "d", "e"] {
        let (_client, election) = candidate(&server, name).await;
        others.push(tokio::spawn(async move { (name, election.campaign().await.unwrap()) }));
    }
    while term.transfer_to("d").await.is_err() {}
    let successor = others.remove(2);
    let (name, elected) = soon("the successor", successor).await.unwrap();
    assert!(name == "d" && elected.is_valid());
    assert!(others.iter().all(|other| !other.is_finished()));
    others.iter().for_each(tokio::task::JoinHandle::abort);
}

async fn a_body_passes_its_term_on(server: Fixture) {
    let (_one, first) = candidate(&server, "a").await;
    let (_other, second) = candidate(&server, "b").await;
    let (bodies, running, stopper) = (Bodies::default(), Bodies::default(), first.stopper());
    let counted = running.clone();
    let leading = tokio::spawn(first.lead(async move |term| {
        let _running = counted.enter();
        term.transfer_after("b");
        if counted.all() > 1 {
            term.asked().await;
        }
        Ok::<_, Infallible>(())
    }));
    eventually("the first leader", || running.all() >= 1).await;
    let term = soon("the second", second.campaign()).await.unwrap();
    assert_eq!((bodies.now(), term.is_valid()), (0, true));
    soon("the stop", stopper.stop()).await;
    leading.await.unwrap().unwrap();
}

async fn another_process_asks_for_a_transfer(server: Fixture) {
    let (_one, first) = candidate(&server, "a").await;
    let (_other, second) = candidate(&server, "b").await;
    let (_third, operator) = candidate(&server, "c").await;
    let (asked, stopper) = (Bodies::default(), first.stopper());
    let counted = asked.clone();
    let leading = tokio::spawn(first.lead(async move |term| {
        let reason = term.asked().await;
        let _running = (reason == Asked::Transfer("b".into())).then(|| counted.enter());
        Ok::<_, Infallible>(())
    }));
    eventually("the first leader", || !is_free(&server, NAME)).await;
    let waiting = tokio::spawn(async move { second.campaign().await.unwrap() });
    assert!(operator.request_transfer("b").await.unwrap(), "the leader hears");
    let term = soon("the second", waiting).await.unwrap();
    assert!(term.is_valid() && asked.all() == 1);
    soon("the stop", stopper.stop()).await;
    leading.await.unwrap().unwrap();
}

async fn a_successor_that_left_frees_the_lock_soon(server: Fixture) {
    let (_one, first) = candidate(&server, "a").await;
    let (other, second) = candidate(&server, "b").await;
    let term = first.campaign().await.unwrap();
    let waiting = tokio::spawn(async move { second.campaign().await.map(drop) });
    while term.transfer_to("b").await.is_err() {}
    waiting.abort();
    drop(other);
    soon("the election to go on", first.campaign()).await.map(drop).unwrap_or_default();
}
