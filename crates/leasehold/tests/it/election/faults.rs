//! Elections while replies are lost, masters fail over, and slots live on several masters.

use std::convert::Infallible;
use std::time::Duration;

use leasehold::election::Election;
use leasehold::{Client, ClientBuilder, Confirm, testing};
use leasehold_testkit::fleets::{Cluster, Sentinels};

use crate::election::{Bodies, NAME};
use crate::support::{eventually, ms, soon};

async fn of(url: &str, name: &str, replicas: Option<Confirm>) -> (Client, Election) {
    let builder = Client::builder().visible(false).timeout(Duration::from_secs(2));
    let builder = replicas.into_iter().fold(builder, ClientBuilder::replicas);
    let client = builder.connect(url).await.unwrap();
    let election = client.election(NAME).candidate(name).watchdog(Duration::from_secs(6)).rest(ms(20));
    (client, election)
}

/// The outcome of the swap is unknown at first. The leader repeats it, and the successor leads once.
#[tokio::test]
async fn a_transfer_whose_reply_is_lost_is_repeated_and_done_once() {
    let server = testing::Server::new();
    let (one, other) = (server.client().await.unwrap(), server.client().await.unwrap());
    let term = one.election(NAME).candidate("a").campaign().await.unwrap();
    let second = other.election(NAME).candidate("b");
    let waiting = tokio::spawn({
        let second = second.clone();
        async move { second.campaign().await.unwrap() }
    });
    server.settle().await;
    server.connection(&one).lose_replies(true);
    let passing = tokio::spawn(async move { (term.transfer_to("b").await, term) });
    server.advance(Duration::from_secs(4)).await;
    assert!(!passing.is_finished(), "no reply has come");
    server.connection(&one).lose_replies(false);
    server.advance(Duration::from_secs(5)).await;
    let (passed, term) = passing.await.unwrap();
    passed.unwrap();
    let next = waiting.await.unwrap();
    assert!(next.token() > term.token() && next.is_valid() && !term.is_valid());
    let leader = second.leader().await.unwrap().unwrap();
    assert_eq!(leader.term, Some(next.token()), "the token was raised once");
}

/// The server has not executed the swap. The term ends for good at the end of its lease, and the error says so.
#[tokio::test]
async fn a_transfer_without_a_server_ends_the_term_within_its_lease() {
    let server = testing::Server::new();
    let (one, other) = (server.client().await.unwrap(), server.client().await.unwrap());
    let term = one.election(NAME).candidate("a").campaign().await.unwrap();
    let second = other.election(NAME).candidate("b");
    let waiting = tokio::spawn(async move { second.campaign().await.unwrap() });
    server.settle().await;
    let passing = tokio::spawn(async move { (term.transfer_to("b").await, term) });
    server.connection(&one).set_reachable(false);
    server.advance(Duration::from_secs(30)).await;
    let (passed, term) = passing.await.unwrap();
    assert!(!term.is_valid(), "{passed:?}");
    drop(term);
    assert!(waiting.await.unwrap().is_valid(), "somebody leads after the lease");
}

#[tokio::test(flavor = "multi_thread")]
async fn elections_work_on_a_cluster_and_hear_each_other_over_its_nodes() {
    let cluster = Cluster::start(3, 0);
    let (_one, first) = of(&cluster.url(), "a", None).await;
    let (_other, second) = of(&cluster.url(), "b", None).await;
    let mut view = second.observe();
    let term = first.campaign().await.unwrap();
    while soon("the leader", view.changed()).await.is_none_or(|state| state.leader().is_none()) {}
    assert!(soon("the request", second.request_resign()).await.unwrap(), "the leader hears");
    assert!(term.is_asked());
    let waiting = tokio::spawn(async move { second.campaign().await.unwrap() });
    while term.transfer_to("b").await.is_err_and(|error| error.is_retryable()) {}
    let next = soon("the successor", waiting).await.unwrap();
    assert!(next.token() > term.token() && !term.is_valid());
    // The slot of the lock, its token and its announcement moves under the leader.
    let slot = cluster.slot_of_key(NAME);
    let elsewhere = (cluster.node_of_slot(slot) + 1) % 3;
    cluster.move_slot(slot, elsewhere);
    assert!(soon("the request after the move", first.request_resign()).await.unwrap());
    next.resign().await.unwrap();
    assert!(soon("the next term", first.campaign()).await.unwrap().is_valid());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confirmed_term_outlives_its_master() {
    let mut fleet = Sentinels::start();
    let (_one, first) = of(&fleet.url(), "a", Some(Confirm::all(2))).await;
    let term = first.campaign().await.unwrap();
    fleet.kill(fleet.master());
    fleet.wait_until_settled();
    let (_other, second) = of(&fleet.url(), "b", None).await;
    assert!(second.clone().wait(ms(300)).campaign().await.is_err(), "the new master knows the leader");
    assert!(term.is_valid());
    term.resign().await.unwrap();
    assert!(soon("the second", second.campaign()).await.unwrap().token() > 0);
}

/// Without confirmation a failover may lose the term. The candidates go on, the token grows, and one leads in the end.
#[tokio::test(flavor = "multi_thread")]
async fn candidates_go_on_after_a_failover_with_growing_tokens() {
    let mut fleet = Sentinels::start();
    let bodies = Bodies::default();
    let mut running = Vec::new();
    let tokens = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    for name in ["a", "b", "c"] {
        let (client, election) = of(&fleet.url(), name, None).await;
        let (stopper, counted, seen) = (election.stopper(), bodies.clone(), tokens.clone());
        let leading = tokio::spawn(election.lead(async move |term| {
            let _running = counted.enter();
            seen.lock().unwrap().push(term.token());
            let _ = term.asked().await;
            Ok::<_, Infallible>(())
        }));
        running.push((client, stopper, leading));
    }
    eventually("the first leader", || bodies.now() == 1).await;
    fleet.kill(fleet.master());
    fleet.wait_until_settled();
    // The leader has kept its term, or another one has a higher token.
    let (_client, operator) = of(&fleet.url(), "operator", None).await;
    eventually("a leader", || bodies.now() == 1).await;
    let terms = tokens.lock().unwrap().len();
    while !soon("the request", operator.request_resign()).await.unwrap_or(false) {}
    eventually("the next leader", || tokens.lock().unwrap().len() > terms).await;
    for (_, stopper, leading) in running {
        soon("the stop", stopper.stop()).await;
        leading.await.unwrap().unwrap();
    }
    let seen = tokens.lock().unwrap();
    assert!(seen.is_sorted_by(|one, next| one < next), "{seen:?}");
}
