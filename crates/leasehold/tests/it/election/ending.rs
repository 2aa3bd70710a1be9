//! Planned ends: the body ends before the release is sent.

use std::convert::Infallible;
use std::future::pending;

use leasehold::election::{Asked, OnLost};
use leasehold::{LostReason, ReleaseOutcome};

use crate::election::{Bodies, NAME, candidate};
use crate::support::{Fixture, connect, eventually, is_free, ms, on_both, run_command, soon};

on_both! {
    async {
        kubernetes_71490_the_release_comes_after_the_body,
        client_go_728_a_body_keeps_its_lease_while_it_ends,
        a_body_that_overruns_its_grace_is_dropped_before_the_release,
        a_panic_of_the_body_passes_on_and_frees_the_lock,
        a_stop_while_waiting_ends_at_once_and_leaves_nothing,
        a_stop_twice_and_a_lead_after_it_end,
        a_close_during_a_term_is_a_loss,
        a_body_that_finishes_after_a_loss_is_not_dropped,
        a_term_has_a_longest_length,
        pinniped_800_a_term_is_invalid_before_its_release,
        etcd_21128_a_dropped_campaign_leaves_no_key,
        etcd_22123_a_dropped_resignation_is_still_sent,
        another_process_asks_for_the_end,
        a_lead_that_is_dropped_at_any_poll_frees_the_lock,
    }
}

async fn kubernetes_71490_the_release_comes_after_the_body(server: Fixture) {
    let (_one, election) = candidate(&server, "a").await;
    let (bodies, stopper) = (Bodies::default(), election.stopper());
    let (running, (end, mut ended)) = (bodies.clone(), tokio::sync::oneshot::channel::<()>());
    let leading = tokio::spawn(election.lead(async move |term| {
        let _running = running.enter();
        assert_eq!(term.asked().await, Asked::Stopped);
        let _ = (&mut ended).await;
        assert!(term.is_valid(), "the lease is renewed until the body has ended");
        Ok::<_, Infallible>(())
    }));
    eventually("the first leader", || bodies.now() == 1).await;
    let (_other, standby) = candidate(&server, "b").await;
    let stopping = tokio::spawn(async move { stopper.stop().await });
    assert!(standby.clone().wait(ms(200)).campaign().await.is_err(), "the body still runs");
    assert_eq!(bodies.now(), 1);
    end.send(()).unwrap();
    let term = soon("the standby", standby.campaign()).await.unwrap();
    assert_eq!(bodies.now(), 0, "the body has ended before the next term");
    drop(term);
    soon("the stop", stopping).await.unwrap();
    assert_eq!(leading.await.unwrap().unwrap().terms, 1);
}

async fn client_go_728_a_body_keeps_its_lease_while_it_ends(server: Fixture) {
    let (client, _) = candidate(&server, "a").await;
    let election = client.election(NAME).watchdog(ms(300)).grace(ms(10_000));
    let stopper = election.stopper();
    let bodies = Bodies::default();
    let leading = election.lead(async |term| {
        let _running = bodies.enter();
        term.asked().await;
        crate::support::a_lease_passes(&server, ms(900)).await;
        assert!(term.is_valid(), "three leases later");
        Ok::<_, Infallible>(())
    });
    let stop = async {
        eventually("the leader", || bodies.now() == 1).await;
        stopper.stop().await;
    };
    let (led, ()) = soon("the end", async { tokio::join!(leading, stop) }).await;
    assert_eq!(led.unwrap().terms, 1);
}

async fn a_body_that_overruns_its_grace_is_dropped_before_the_release(server: Fixture) {
    let (_client, election) = candidate(&server, "a").await;
    let (election, bodies) = (election.grace(ms(50)), Bodies::default());
    let (running, stopper) = (bodies.clone(), election.stopper());
    let leading = tokio::spawn(election.lead(async move |_| {
        let _running = running.enter();
        pending::<Result<(), Infallible>>().await
    }));
    eventually("the leader", || bodies.now() == 1).await;
    soon("the stop", stopper.stop()).await;
    assert_eq!((bodies.now(), is_free(&server, NAME)), (0, true));
    assert_eq!(leading.await.unwrap().unwrap().terms, 1);
}

async fn a_panic_of_the_body_passes_on_and_frees_the_lock(server: Fixture) {
    let (_client, election) = candidate(&server, "a").await;
    let leading = tokio::spawn(election.lead(async |term| {
        assert!(!term.is_valid(), "the body of this test panics");
        Ok::<_, Infallible>(())
    }));
    assert!(soon("the panic", leading).await.unwrap_err().is_panic());
    eventually("the release", || is_free(&server, NAME)).await;
    soon("a stop without a body", election.stopper().stop()).await;
}

async fn a_stop_while_waiting_ends_at_once_and_leaves_nothing(server: Fixture) {
    let (_one, first) = candidate(&server, "a").await;
    let (_other, second) = candidate(&server, "b").await;
    let term = first.campaign().await.unwrap();
    let stopper = second.stopper();
    let waiting = second.lead(async |_| Ok::<_, Infallible>(()));
    let (led, ()) = soon("the stop", async { tokio::join!(waiting, stopper.stop()) }).await;
    assert_eq!(led.unwrap().terms, 0);
    term.resign().await.unwrap();
    // An attempt on its way may be granted now, and is undone.
    eventually("a free lock", || is_free(&server, NAME)).await;
}

async fn a_stop_twice_and_a_lead_after_it_end(server: Fixture) {
    let (_client, election) = candidate(&server, "a").await;
    let stopper = election.stopper();
    stopper.stop().await;
    stopper.stop().await;
    assert_eq!(election.lead(async |_| Ok::<_, Infallible>(())).await.unwrap().terms, 0);
}

async fn a_close_during_a_term_is_a_loss(server: Fixture) {
    let (client, election) = candidate(&server, "a").await;
    let term = election.campaign().await.unwrap();
    let (reason, _) = tokio::join!(term.lost(), client.close());
    assert_eq!(reason, LostReason::Closed);
    assert!(!term.is_valid() && is_free(&server, NAME));
    assert_eq!(term.resign().await, Ok(ReleaseOutcome::NotHeld));
    let led = election.lead(async |_| Ok::<_, Infallible>(())).await;
    assert!(led.is_err(), "a closed client cannot lead");
}

async fn a_body_that_finishes_after_a_loss_is_not_dropped(server: Fixture) {
    let (_client, election) = candidate(&server, "a").await;
    let (election, mut terms) = (election.on_lost(OnLost::Finish), 0);
    let led = election.lead(async |term| {
        terms += 1;
        if terms == 1 {
            run_command(&server, &["DEL", NAME]);
            term.lost().await;
            tokio::task::yield_now().await;
            assert!(!term.is_valid());
        }
        Ok::<_, Infallible>(())
    });
    assert_eq!(soon("the second term", led).await.unwrap().terms, 2);
}

async fn a_term_has_a_longest_length(server: Fixture) {
    let (_client, election) = candidate(&server, "a").await;
    let election = election.watchdog(ms(50)).max_term(ms(20));
    let mut terms = 0;
    let led = election.lead(async |term| {
        terms += 1;
        if terms == 2 {
            return Err("enough");
        }
        assert_eq!(term.asked().await, Asked::MaxTerm);
        Ok(())
    });
    assert!(soon("the second term", led).await.is_err());
}

async fn pinniped_800_a_term_is_invalid_before_its_release(server: Fixture) {
    let (_client, election) = candidate(&server, "a").await;
    let term = election.campaign().await.unwrap();
    let token = term.token();
    assert_eq!(term.resign().await, Ok(ReleaseOutcome::Released));
    assert!(is_free(&server, NAME));
    assert!(election.campaign().await.unwrap().token() > token);
}

async fn etcd_21128_a_dropped_campaign_leaves_no_key(server: Fixture) {
    let (_client, election) = candidate(&server, "a").await;
    for _ in 0..50 {
        let campaign = election.clone();
        let task = tokio::spawn(async move { campaign.campaign().await.map(drop) });
        tokio::task::yield_now().await;
        task.abort();
        let _ = task.await;
    }
    eventually("every grant to be undone", || is_free(&server, NAME)).await;
}

async fn etcd_22123_a_dropped_resignation_is_still_sent(server: Fixture) {
    let (_client, election) = candidate(&server, "a").await;
    let term = election.campaign().await.unwrap();
    drop(term.resign());
    eventually("the release", || is_free(&server, NAME)).await;
}

async fn another_process_asks_for_the_end(server: Fixture) {
    let (_one, leader) = candidate(&server, "a").await;
    let (_other, operator) = candidate(&server, "b").await;
    assert!(!operator.request_resign().await.unwrap(), "nobody leads");
    let term = leader.campaign().await.unwrap();
    // One request reaches a leader that has just won, subscribed or not.
    assert!(operator.request_resign().await.unwrap(), "the leader hears");
    assert_eq!(soon("the request", term.asked()).await, Asked::Requested);
    assert!(term.is_valid(), "a request ends nothing by itself");
    term.resign().await.unwrap();
    let other = connect(&server).await;
    let _guard = other.fenced_lock(NAME).try_lock().await.unwrap().expect("a free lock");
    assert!(!operator.request_resign().await.unwrap(), "a leader that is no candidate hears nothing");
}

async fn a_lead_that_is_dropped_at_any_poll_frees_the_lock(server: Fixture) {
    for polls in 0..12 {
        let (_one, election) = candidate(&server, "a").await;
        let leading = election.lead(async |_| {
            tokio::task::yield_now().await;
            pending::<Result<(), Infallible>>().await
        });
        let mut leading = Box::pin(leading);
        let mut left = polls;
        // Each wake-up is one poll. A body that waits for ever ends the polls by the pause.
        let polled = std::future::poll_fn(|cx| {
            if left == 0 {
                return std::task::Poll::Ready(());
            }
            left -= 1;
            leading.as_mut().poll(cx).map(drop)
        });
        let _ = tokio::time::timeout(ms(50), polled).await;
        drop(leading);
        eventually("a free lock", || is_free(&server, NAME)).await;
    }
}
