//! Candidates, terms and their order.

use std::convert::Infallible;
use std::future::pending;

use leasehold::LostReason;
use leasehold::election::{Asked, Gate, LeadError};
use leasehold::error::{AcquireErrorKind, RunError};

use crate::election::{Bodies, NAME, candidate};
use crate::support::{Fixture, a_lease_passes, connect, eventually, is_free, ms, on_both, run_command, soon};

on_both! {
    async {
        two_candidates_lead_one_after_the_other,
        ten_candidates_have_one_leader_at_a_time,
        a_hundred_candidates_have_one_leader_at_a_time,
        terms_grow_with_each_leader_and_after_a_loss_of_the_data,
        a_campaign_with_a_wait_ends_busy,
        two_candidates_of_one_client_exclude_each_other,
        kuberhealthy_1533_a_candidate_that_lost_its_term_campaigns_again,
        a_term_that_an_operator_forces_is_lost_and_names_the_reason,
        a_closed_gate_ends_the_term_and_opens_again,
        a_gate_that_flaps_changes_nothing,
        a_candidate_of_low_priority_leads_when_no_better_one_does,
        kubernetes_138066_a_candidate_of_low_priority_leads_after_the_favorite_has_gone,
        an_election_of_a_bad_name_ends_with_its_error,
        a_body_resigns_and_leads_again,
        spring_integration_2098_a_failed_body_frees_the_lock_and_is_reported,
    }
}

async fn all_lead_once(server: &Fixture, number: usize) {
    let bodies = Bodies::default();
    let mut tasks = Vec::new();
    for at in 0..number {
        let (_, election) = candidate(server, &format!("c{at}")).await;
        let bodies = bodies.clone();
        tasks.push(tokio::spawn(async move {
            let led = election.lead(async move |term| {
                let _running = bodies.enter();
                assert!(term.is_valid());
                tokio::task::yield_now().await;
                Ok::<_, Infallible>(())
            });
            led.await.unwrap()
        }));
    }
    let mut tokens = Vec::new();
    for task in tasks {
        let led = soon("a candidate to lead", task).await.unwrap();
        assert_eq!(led.terms, 1);
        tokens.push(led.last.unwrap());
    }
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!((tokens.len(), bodies.all(), bodies.most()), (number, number, 1));
    assert!(is_free(server, NAME));
}

async fn two_candidates_lead_one_after_the_other(server: Fixture) {
    all_lead_once(&server, 2).await;
}

async fn ten_candidates_have_one_leader_at_a_time(server: Fixture) {
    all_lead_once(&server, 10).await;
}

async fn a_hundred_candidates_have_one_leader_at_a_time(server: Fixture) {
    all_lead_once(&server, 100).await;
}

async fn terms_grow_with_each_leader_and_after_a_loss_of_the_data(server: Fixture) {
    let (_client, election) = candidate(&server, "a").await;
    let mut last = 0;
    for _ in 0..5 {
        let term = election.campaign().await.unwrap();
        assert!(term.token() > last);
        last = term.token();
        term.resign().await.unwrap();
        run_command(&server, &["FLUSHALL"]);
        // The clock of the in-process server has whole milliseconds.
        a_lease_passes(&server, ms(2)).await;
    }
}

async fn a_campaign_with_a_wait_ends_busy(server: Fixture) {
    let (_one, first) = candidate(&server, "a").await;
    let (_other, second) = candidate(&server, "b").await;
    let term = first.campaign().await.unwrap();
    for wait in [ms(0), ms(50)] {
        let refused = second.clone().wait(wait).campaign().await;
        assert!(matches!(refused, Err(RunError::Busy { .. })), "{refused:?}");
    }
    assert!(term.is_valid());
    term.resign().await.unwrap();
    assert!(second.wait(ms(0)).campaign().await.is_ok());
}

async fn two_candidates_of_one_client_exclude_each_other(server: Fixture) {
    let (_client, first) = candidate(&server, "a").await;
    let second = first.clone().candidate("b");
    let term = first.campaign().await.unwrap();
    assert!(second.clone().wait(ms(50)).campaign().await.is_err());
    let (next, released) = tokio::join!(second.campaign(), term.resign());
    released.unwrap();
    assert!(next.unwrap().is_valid());
}

async fn kuberhealthy_1533_a_candidate_that_lost_its_term_campaigns_again(server: Fixture) {
    let (_client, election) = candidate(&server, "a").await;
    let (bodies, stopper) = (Bodies::default(), election.stopper());
    let running = bodies.clone();
    let leading = tokio::spawn(election.lead(async move |_| {
        let _running = running.enter();
        pending::<Result<(), Infallible>>().await
    }));
    for terms in 1..=3 {
        eventually("a term", || bodies.all() == terms && bodies.now() == 1).await;
        run_command(&server, &["DEL", NAME]);
    }
    eventually("another term", || bodies.all() == 4 && bodies.now() == 1).await;
    soon("the stop", stopper.stop()).await;
    assert_eq!(leading.await.unwrap().unwrap().terms, 4);
    assert!(is_free(&server, NAME) && bodies.now() == 0);
}

async fn a_term_that_an_operator_forces_is_lost_and_names_the_reason(server: Fixture) {
    let (client, election) = candidate(&server, "a").await;
    let term = election.campaign().await.unwrap();
    assert!(connect(&server).await.fenced_lock(NAME).force_unlock().await.unwrap());
    assert_eq!(soon("the loss", term.lost()).await, LostReason::Deleted);
    assert!(!term.is_valid());
    drop((term, client));
    let (_client, election) = candidate(&server, "b").await;
    let term = election.campaign().await.unwrap();
    run_command(&server, &["DEL", NAME]);
    run_command(&server, &["HSET", NAME, "someone:1", "1"]);
    assert_eq!(soon("the loss", term.lost()).await, LostReason::TakenOver);
}

async fn a_closed_gate_ends_the_term_and_opens_again(server: Fixture) {
    let (gate, bodies) = (Gate::new(), Bodies::default());
    let (_client, election) = candidate(&server, "a").await;
    let election = election.when(&gate).unhealthy_for(ms(10)).healthy_for(ms(10));
    let (running, stopper) = (bodies.clone(), election.stopper());
    let leading = tokio::spawn(election.lead(async move |term| {
        let _running = running.enter();
        let asked = term.asked().await;
        assert!(matches!(asked, Asked::Closed(_) | Asked::Stopped), "{asked}");
        Ok::<_, Infallible>(())
    }));
    eventually("the first term", || bodies.now() == 1).await;
    gate.close("read-only");
    eventually("the end", || bodies.now() == 0 && is_free(&server, NAME)).await;
    gate.open();
    eventually("the second term", || bodies.all() == 2).await;
    soon("the stop", stopper.stop()).await;
    leading.await.unwrap().unwrap();
}

async fn a_gate_that_flaps_changes_nothing(server: Fixture) {
    let (gate, bodies) = (Gate::new(), Bodies::default());
    let (_client, election) = candidate(&server, "a").await;
    let election = election.when(&gate).unhealthy_for(ms(10_000));
    let (running, stopper) = (bodies.clone(), election.stopper());
    let leading = tokio::spawn(election.lead(async move |term| {
        let _running = running.enter();
        assert_eq!(term.asked().await, Asked::Stopped);
        Ok::<_, Infallible>(())
    }));
    eventually("the first term", || bodies.now() == 1).await;
    for _ in 0..100 {
        gate.close("a blink");
        tokio::task::yield_now().await;
        gate.open();
        tokio::task::yield_now().await;
    }
    soon("the stop", stopper.stop()).await;
    assert_eq!(leading.await.unwrap().unwrap().terms, 1);
}

async fn a_candidate_of_low_priority_leads_when_no_better_one_does(server: Fixture) {
    let (_client, election) = candidate(&server, "a").await;
    let term = soon("the election", election.priority(1).campaign()).await.unwrap();
    assert!(term.is_valid());
}

async fn kubernetes_138066_a_candidate_of_low_priority_leads_after_the_favorite_has_gone(server: Fixture) {
    let (favorite, first) = candidate(&server, "favorite").await;
    let (_other, second) = candidate(&server, "b").await;
    let term = first.campaign().await.unwrap();
    let waiting = tokio::spawn(async move { second.priority(1).campaign().await });
    drop((term, first, favorite));
    assert!(soon("the second", waiting).await.unwrap().unwrap().is_valid());
}

async fn an_election_of_a_bad_name_ends_with_its_error(server: Fixture) {
    let election = connect(&server).await.election("a{b}");
    let led = election.lead(async |_| Ok::<_, Infallible>(())).await;
    let Err(LeadError::Campaign(error)) = led else { panic!("{led:?}") };
    assert!(matches!(error.kind, AcquireErrorKind::Name(_)));
    assert!(election.leader().await.is_err());
}

async fn a_body_resigns_and_leads_again(server: Fixture) {
    let (_client, election) = candidate(&server, "a").await;
    let mut terms = 0;
    let led = election.watchdog(ms(50)).lead(async |term| {
        terms += 1;
        if terms < 3 {
            term.resign_after();
        }
        Ok::<_, Infallible>(())
    });
    assert_eq!(soon("three terms", led).await.unwrap().terms, 3);
}

async fn spring_integration_2098_a_failed_body_frees_the_lock_and_is_reported(server: Fixture) {
    let (_client, election) = candidate(&server, "a").await;
    let led = election.lead(async |_| Err::<(), _>("no database")).await;
    assert_eq!(led, Err(LeadError::Body("no database")));
    assert!(is_free(&server, NAME));
}
