//! Observers of an election.

use leasehold::Client;
use leasehold::election::State;
use leasehold_testkit::proxy::Proxy;
use leasehold_testkit::servers::RedisServer;

use crate::election::{NAME, candidate};
use crate::support::{Fixture, connect, connect_through, ms, on_both, pttl, run_command, soon};

on_both! {
    async {
        an_observer_sees_leaders_come_and_go,
        a_leader_is_announced_with_its_info_for_a_week,
        a_stale_announcement_is_disbelieved,
        a_leader_without_an_announcement_has_no_candidate,
        spring_cloud_kubernetes_1955_a_late_observer_sees_the_present_leader,
        observers_of_one_client_share_one_question,
        an_observer_ends_with_its_client,
    }
}

const ANNOUNCEMENT: &str = "leasehold_leader:{job}";

async fn an_observer_sees_leaders_come_and_go(server: Fixture) {
    let (_one, first) = candidate(&server, "a").await;
    let (other, second) = candidate(&server, "b").await;
    let mut view = connect(&server).await.election(NAME).observe();
    assert!(matches!(view.current(), State::Unknown { since: None, .. }));
    assert_eq!(soon("an answer", view.changed()).await, Some(State::NoLeader));
    for (name, election) in [("a", first), ("b", second)] {
        let term = election.campaign().await.unwrap();
        let is_it = |state: &State| {
            state.leader().is_some_and(|leader| {
                leader.candidate.as_deref() == Some(name)
                    && leader.term == Some(term.token())
                    && !leader.is_me
            })
        };
        while !soon("the leader", view.changed()).await.is_some_and(|state| is_it(&state)) {}
        assert!(is_it(&view.current()));
        term.resign().await.unwrap();
        while soon("the end", view.changed()).await.unwrap() != State::NoLeader {}
    }
    drop(other);
}

async fn a_leader_is_announced_with_its_info_for_a_week(server: Fixture) {
    let (_client, election) = candidate(&server, "a").await;
    let term = election.info("1.4.2 eu-west").campaign().await.unwrap();
    crate::support::eventually("the announcement", || server.cli(&["EXISTS", ANNOUNCEMENT]) == "1").await;
    let fields = server.cli(&["HGETALL", ANNOUNCEMENT]);
    for part in ["a", "1.4.2 eu-west", &term.token().to_string(), &std::process::id().to_string()] {
        assert!(fields.lines().any(|line| line == part), "{part} in {fields}");
    }
    assert!((604_000_000..=604_800_000).contains(&pttl(&server, ANNOUNCEMENT)));
}

async fn a_stale_announcement_is_disbelieved(server: Fixture) {
    let (client, election) = candidate(&server, "old").await;
    let term = election.campaign().await.unwrap();
    crate::support::eventually("the announcement", || server.cli(&["EXISTS", ANNOUNCEMENT]) == "1").await;
    run_command(&server, &["DEL", NAME]);
    assert!(election.leader().await.unwrap().is_none(), "an announcement alone is no leader");
    run_command(&server, &["HSET", NAME, "java:1", "1"]);
    let leader = election.leader().await.unwrap().expect("somebody leads");
    assert_eq!((leader.candidate, &*leader.owner, leader.is_me), (None, "java:1", false));
    drop((term, client));
}

async fn a_leader_without_an_announcement_has_no_candidate(server: Fixture) {
    let client = connect(&server).await;
    let guard = client.fenced_lock(NAME).lock().await.unwrap();
    let leader = client.election(NAME).leader().await.unwrap().expect("somebody leads");
    assert_eq!((leader.candidate, leader.term, leader.is_me), (None, Some(guard.token()), true));
}

async fn spring_cloud_kubernetes_1955_a_late_observer_sees_the_present_leader(server: Fixture) {
    let (_client, election) = candidate(&server, "a").await;
    let term = election.campaign().await.unwrap();
    crate::support::eventually("the announcement", || server.cli(&["EXISTS", ANNOUNCEMENT]) == "1").await;
    let mut view = connect(&server).await.election(NAME).observe();
    let state = soon("an answer", view.changed()).await.unwrap();
    assert_eq!(state.leader().and_then(|leader| leader.term), Some(term.token()));
}

async fn observers_of_one_client_share_one_question(server: Fixture) {
    let client = connect(&server).await;
    let mut views: Vec<_> = (0..100).map(|_| client.election(NAME).observe()).collect();
    for view in &mut views {
        assert_eq!(soon("an answer", view.changed()).await, Some(State::NoLeader));
    }
    assert!(server.cli(&["PUBSUB", "NUMSUB", ANNOUNCEMENT]).ends_with('1'), "one subscription");
}

async fn an_observer_ends_with_its_client(server: Fixture) {
    let client = connect(&server).await;
    let mut view = client.election(NAME).observe();
    assert_eq!(soon("an answer", view.changed()).await, Some(State::NoLeader));
    client.close().await;
    assert_eq!(soon("the end", view.changed()).await, None);
}

#[tokio::test]
async fn an_observer_that_is_cut_off_knows_nothing() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let leading = Client::builder().connect(&server.url()).await.unwrap();
    let term = leading.election(NAME).candidate("a").watchdog(ms(500)).campaign().await.unwrap();
    let mut view = connect_through(&proxy, ms(200)).await.election(NAME).observe();
    let state = soon("an answer", view.changed()).await.unwrap();
    assert!(state.leader().is_some(), "{state:?}");
    proxy.black_hole(true);
    while !matches!(soon("the doubt", view.changed()).await, Some(State::Unknown { .. })) {}
    assert!(term.is_valid() && view.current().leader().is_none());
}
