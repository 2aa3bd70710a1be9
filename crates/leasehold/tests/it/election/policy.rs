//! What a leader and a candidate do when something else goes wrong at the same time.

use std::convert::Infallible;
use std::future::pending;

use leasehold::election::{Asked, Gate, LeadError, Leader, State};
use leasehold::error::TransferErrorKind;
use leasehold::{Client, HoldTerms, LostReason, Primitive};

use crate::election::{Bodies, NAME, candidate};
use crate::support::{Fixture, connect_with, eventually, is_free, ms, on_both, run_command, soon};

on_both! {
    async {
        defaults_of_the_client_do_not_bound_a_term,
        swarmkit_1658_a_leader_that_hangs_loses_its_term,
        a_transfer_that_the_server_refuses_frees_the_lock,
        a_body_that_transfers_ends_before_the_successor_leads,
        a_requested_transfer_to_the_leader_changes_nothing,
        r2_an_error_of_a_body_whose_term_is_lost_is_no_end,
        nomad_6977_a_gate_that_opens_during_the_end_proves_itself_again,
        spring_cloud_kubernetes_1955_a_new_observer_sees_no_old_answer,
        a_candidate_with_a_priority_reports_that_its_client_is_closed,
    }
}

async fn defaults_of_the_client_do_not_bound_a_term(server: Fixture) {
    let terms = HoldTerms::new().max_hold(ms(300)).silent_for(ms(100)).min_hold(ms(60_000));
    let builder = Client::builder().visible(false).defaults(Primitive::FencedLock, terms);
    let client = connect_with(builder, &server.url()).await;
    let election = client.election(NAME).watchdog(ms(300));
    let term = election.campaign().await.unwrap();
    crate::support::a_lease_passes(&server, ms(900)).await;
    assert!(term.is_valid(), "the leader renews for as long as it leads");
    term.resign().await.unwrap();
    assert!(is_free(&server, NAME), "a resignation leaves no minimum hold");
}

async fn swarmkit_1658_a_leader_that_hangs_loses_its_term(server: Fixture) {
    let (_client, election) = candidate(&server, "a").await;
    let election = election.watchdog(ms(300)).silent_for(ms(200));
    let term = election.campaign().await.unwrap();
    let beating = async {
        let mut beats = crate::support::pace(ms(20));
        for _ in 0..40 {
            beats.tick().await;
            term.beat();
        }
    };
    tokio::select! {
        () = beating => {}
        reason = term.lost() => panic!("lost while it beats: {reason}"),
    }
    assert_eq!(soon("the loss", term.lost()).await, LostReason::Silent);
    let (_other, standby) = candidate(&server, "b").await;
    assert!(soon("the standby", standby.campaign()).await.unwrap().is_valid());
}

async fn a_transfer_that_the_server_refuses_frees_the_lock(server: Fixture) {
    let (_one, first) = candidate(&server, "a").await;
    let (_other, second) = candidate(&server, "b").await;
    let term = first.campaign().await.unwrap();
    let waiting = tokio::spawn(async move { second.campaign().await });
    run_command(&server, &["SET", &format!("redisson_lock_token:{{{NAME}}}"), "many"]);
    let error = loop {
        let error = soon("the transfer", term.transfer_to("b")).await.unwrap_err();
        if !matches!(error.kind, TransferErrorKind::NoCandidate { .. }) {
            break error;
        }
    };
    assert!(matches!(error.kind, TransferErrorKind::Store(_)), "{error}");
    // The term is still there, and renews nothing. The candidate's own attempt is refused like the transfer.
    eventually("a free lock", || is_free(&server, NAME)).await;
    waiting.abort();
    assert_eq!(term.transfer_to("b").await.unwrap_err().kind, TransferErrorKind::NotLeading);
}

async fn a_body_that_transfers_ends_before_the_successor_leads(server: Fixture) {
    let (_one, first) = candidate(&server, "a").await;
    let (_other, second) = candidate(&server, "b").await;
    let (bodies, stopper) = (Bodies::default(), first.stopper());
    let counted = bodies.clone();
    let leading = tokio::spawn(first.lead(async move |term| {
        let _running = counted.enter();
        while term.transfer_to("b").await.is_err() {}
        assert_eq!(term.asked().await, Asked::Transfer("b".into()));
        assert!(term.is_valid(), "the lease lasts until the body has ended");
        Ok::<_, Infallible>(())
    }));
    let term = soon("the second", second.campaign()).await.unwrap();
    assert_eq!(bodies.now(), 0);
    drop(term);
    soon("the stop", stopper.stop()).await;
    leading.await.unwrap().unwrap();
}

async fn a_requested_transfer_to_the_leader_changes_nothing(server: Fixture) {
    let (_one, leader) = candidate(&server, "a").await;
    let (_other, operator) = candidate(&server, "b").await;
    let term = leader.campaign().await.unwrap();
    assert!(operator.request_transfer("a").await.unwrap(), "the leader hears");
    assert!(!term.is_asked() && term.is_valid());
}

async fn r2_an_error_of_a_body_whose_term_is_lost_is_no_end(server: Fixture) {
    let client = leasehold::blocking::Client::from(candidate(&server, "a").await.0);
    let election = client.election(NAME).watchdog(ms(600)).rest(ms(20));
    let (bodies, stopper) = (Bodies::default(), election.stopper());
    let counted = bodies.clone();
    let leading = std::thread::spawn(move || {
        election.lead(|term| {
            let _running = counted.enter();
            if counted.all() > 1 {
                let _ = term.asked();
                return Ok(());
            }
            // A thread sees the loss by itself, and nobody drops its body.
            let _ = term.lost();
            Err("the write was refused, since another leads")
        })
    });
    eventually("the first term", || bodies.now() == 1).await;
    run_command(&server, &["DEL", NAME]);
    eventually("the second term", || bodies.all() == 2).await;
    let stopped = tokio::task::spawn_blocking(move || (stopper.stop(), leading.join().unwrap()));
    let (_, led) = soon("the stop", stopped).await.unwrap();
    assert_eq!(led.unwrap().terms, 2);
}

async fn nomad_6977_a_gate_that_opens_during_the_end_proves_itself_again(server: Fixture) {
    let (gate, bodies) = (Gate::new(), Bodies::default());
    let (_client, election) = candidate(&server, "a").await;
    let election = election.when(&gate).unhealthy_for(ms(10)).healthy_for(ms(60_000));
    let (running, opens, stopper) = (bodies.clone(), gate.clone(), election.stopper());
    let leading = tokio::spawn(election.lead(async move |term| {
        let _running = running.enter();
        let _ = term.asked().await;
        opens.open();
        Ok::<_, Infallible>(())
    }));
    eventually("the first term", || bodies.now() == 1).await;
    gate.close("a bad minute");
    eventually("the end", || bodies.now() == 0 && is_free(&server, NAME)).await;
    crate::support::a_lease_passes(&server, ms(300)).await;
    assert_eq!(bodies.all(), 1, "the gate has not been open for long enough");
    soon("the stop", stopper.stop()).await;
    leading.await.unwrap().unwrap();
}

async fn spring_cloud_kubernetes_1955_a_new_observer_sees_no_old_answer(server: Fixture) {
    let (_one, first) = candidate(&server, "a").await;
    let (_two, second) = candidate(&server, "b").await;
    let (_three, standby) = candidate(&server, "c").await;
    let term = first.campaign().await.unwrap();
    // The candidate keeps what its client knows of the election, and nobody asks while nobody observes.
    let waiting = tokio::spawn({
        let standby = standby.clone();
        async move { standby.campaign().await.map(drop) }
    });
    let mut view = standby.observe();
    let seen = soon("the first answer", view.changed()).await.unwrap();
    assert!(seen.leader().is_some(), "{seen:?}");
    drop(view);
    let next = tokio::spawn(async move { second.campaign().await.unwrap() });
    while term.transfer_to("b").await.is_err() {}
    let next = soon("the successor", next).await.unwrap();
    let mut view = standby.observe();
    let seen = soon("the answer", view.changed()).await.unwrap();
    assert!(
        matches!(&seen, State::Leader(Leader { term: Some(seen), .. }) if *seen == next.token()),
        "{seen:?}"
    );
    waiting.abort();
}

async fn a_candidate_with_a_priority_reports_that_its_client_is_closed(server: Fixture) {
    // A hold without an end is shown for as long as answers come.
    run_command(&server, &["HSET", NAME, "someone:1", "1"]);
    let (client, election) = candidate(&server, "a").await;
    let election = election.priority(1);
    let mut view = election.observe();
    while soon("the holder", view.changed()).await.is_none_or(|state| state.leader().is_none()) {}
    let leading = tokio::spawn(election.lead(async |_| pending::<Result<(), Infallible>>().await));
    tokio::task::yield_now().await;
    client.close().await;
    let ended = soon("the report", leading).await.unwrap();
    assert!(matches!(ended, Err(LeadError::Campaign(_))), "{ended:?}");
}
