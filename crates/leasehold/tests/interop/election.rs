//! Elections beside Redisson's `RFencedLock` of the same name: Java leads, waits and forces.

use std::convert::Infallible;

use leasehold::LostReason;
use leasehold::election::State;

use crate::harness::{Harness, on_each_server};
use crate::support::{is_free, ms, soon};

on_each_server! {
    java_campaigns_and_leads_in_turn_with_a_candidate,
    a_java_forced_unlock_ends_a_term,
    an_observer_sees_a_java_leader_without_a_name,
}

async fn java_campaigns_and_leads_in_turn_with_a_candidate(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("scheduler"));
    let (election, thread) = (client.election(&*name), peer.thread("a"));
    let term = soon("the term", election.campaign()).await.unwrap();
    let waiter = thread.ask(&format!("lock acquire fenced {name}"));
    assert!(election.clone().wait(ms(200)).campaign().await.is_err(), "this term excludes");
    assert!(waiter.is_pending());
    term.resign().await.unwrap();
    soon("Java", waiter.ok()).await;
    let token = thread.number(&format!("lock token fenced {name}")).await;
    let campaign = tokio::spawn({
        let election = election.clone();
        async move { election.campaign().await.unwrap() }
    });
    assert!(!election.request_resign().await.unwrap(), "Java does not listen");
    thread.ok(&format!("lock release fenced {name}")).await;
    let next = soon("the candidate", campaign).await.unwrap();
    assert!(i64::try_from(next.token()).unwrap() > token, "the tokens of both are one sequence");
}

async fn a_java_forced_unlock_ends_a_term(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("scheduler"));
    let election = client.election(&*name).watchdog(ms(1_500)).rest(ms(10));
    let stopper = election.stopper();
    let terms = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = terms.clone();
    let leading = tokio::spawn(election.lead(async move |term| {
        seen.lock().unwrap().push(term.token());
        let _ = term.asked().await;
        Ok::<_, Infallible>(())
    }));
    crate::support::eventually("the first term", || terms.lock().unwrap().len() == 1).await;
    assert_eq!(peer.thread("a").ok(&format!("lock force fenced {name}")).await, "true");
    crate::support::eventually("the second term", || terms.lock().unwrap().len() == 2).await;
    soon("the stop", stopper.stop()).await;
    assert_eq!(leading.await.unwrap().unwrap().terms, 2);
    let term = soon("a term by hand", client.election(&*name).watchdog(ms(1_500)).campaign()).await.unwrap();
    assert_eq!(peer.thread("a").ok(&format!("lock force fenced {name}")).await, "true");
    assert_eq!(soon("the loss", term.lost()).await, LostReason::Deleted);
    assert!(is_free(harness.server(), &name));
}

async fn an_observer_sees_a_java_leader_without_a_name(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("scheduler"));
    peer.thread("a").ok(&format!("lock acquire fenced {name}")).await;
    let mut view = client.election(&*name).observe();
    loop {
        match soon("the leader", view.changed()).await.expect("the client lives") {
            State::Leader(leader) => {
                assert_eq!((leader.candidate, leader.is_me), (None, false));
                break;
            }
            state => println!("{state:?}"),
        }
    }
}
