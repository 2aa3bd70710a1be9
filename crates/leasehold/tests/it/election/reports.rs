//! What other elections were reported for and have no test beside the rule that answers it.

use std::convert::Infallible;
use std::time::Duration;

use leasehold::election::LeadError;
use leasehold::{Client, CredentialsFile, testing};
use leasehold_testkit::servers::RedisServer;

use crate::election::{NAME, candidate};
use crate::support::{Fixture, eventually, is_free, ms, on_both, soon};

on_both! {
    async {
        muninndb_531_a_favorite_that_returns_takes_no_lead,
    }
}

async fn muninndb_531_a_favorite_that_returns_takes_no_lead(server: Fixture) {
    let (_client, modest) = candidate(&server, "modest").await;
    let term = soon("the only one", modest.priority(1).campaign()).await.unwrap();
    let (_other, favorite) = candidate(&server, "favorite").await;
    let waiting = tokio::spawn(async move { favorite.campaign().await });
    crate::support::a_lease_passes(&server, ms(4_000)).await;
    assert!(term.is_valid() && !term.is_asked() && !waiting.is_finished(), "nobody asks for the term");
    term.resign().await.unwrap();
    assert!(soon("the favorite", waiting).await.unwrap().unwrap().is_valid());
}

/// The leader that was cut off connects again after its lease. It does not believe that it still leads.
#[tokio::test]
async fn curator_460_a_reconnect_makes_no_second_leader() {
    let server = testing::Server::new();
    let (one, other) = (server.client().await.unwrap(), server.client().await.unwrap());
    let lease = Duration::from_secs(6);
    let first = one.election(NAME).candidate("a").watchdog(lease).campaign().await.unwrap();
    let second = other.election(NAME).candidate("b").watchdog(lease);
    let waiting = tokio::spawn(async move { second.campaign().await.unwrap() });
    server.settle().await;
    server.connection(&one).set_reachable(false);
    server.advance(Duration::from_secs(10)).await;
    assert!(!first.is_valid(), "its clock says so without a server");
    let second = waiting.await.unwrap();
    server.connection(&one).set_reachable(true);
    server.advance(Duration::from_secs(60)).await;
    assert!(!first.is_valid() && second.is_valid(), "and a server changes nothing");
    let _ = first.resign().await;
    server.settle().await;
    assert!(second.is_valid(), "the old term takes nothing with it");
}

/// The release of a planned end has no answer. The term is over whatever it was.
#[tokio::test]
async fn int_4447_a_resignation_without_an_answer_keeps_no_leadership() {
    let server = testing::Server::new();
    let client = server.client().await.unwrap();
    let term = client.election(NAME).campaign().await.unwrap();
    server.connection(&client).lose_replies(true);
    let validity = term.validity();
    let resigning = tokio::spawn(term.resign());
    server.advance(Duration::from_secs(20)).await;
    let resigned = resigning.await.unwrap();
    assert!(resigned.is_err() && !validity.is_valid(), "{resigned:?}");
    server.connection(&client).lose_replies(false);
    server.advance(Duration::from_secs(20)).await;
    assert!(!client.fenced_lock(NAME).is_locked().await.unwrap(), "the release is repeated");
}

/// A password changes while a candidate waits. It logs in with the new one and leads.
#[tokio::test(flavor = "multi_thread")]
async fn etcd_17623_a_login_that_changes_during_the_wait_is_followed() {
    let server = RedisServer::start();
    let set = |password: &str| {
        let password = format!(">{password}");
        assert_eq!(
            server.cli(&["ACL", "SETUSER", "app", "reset", "on", "~*", "&*", "+@all", &password]),
            "OK"
        );
    };
    set("one");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "one").unwrap();
    let builder = || Client::builder().visible(false).timeout(Duration::from_secs(2));
    let login = CredentialsFile::new(file.path()).user("app");
    let client = builder().credentials(login).connect(&server.url()).await.unwrap();
    let held = builder().connect(&server.url()).await.unwrap();
    let leader = held.election(NAME).watchdog(ms(2_000)).campaign().await.unwrap();
    let election = client.election(NAME).candidate("b").watchdog(ms(2_000));
    let stopper = election.stopper();
    let leading = tokio::spawn(election.lead(async |term| {
        term.asked().await;
        Ok::<(), Infallible>(())
    }));
    eventually("it to wait", || crate::support::listeners(&server, NAME) > 0).await;
    set("two");
    std::fs::write(file.path(), "two").unwrap();
    let _ = server.cli(&["CLIENT", "KILL", "USER", "app"]);
    leader.resign().await.unwrap();
    eventually("it to lead", || !is_free(&server, NAME)).await;
    soon("its end", stopper.stop()).await;
    assert_eq!(leading.await.unwrap().unwrap().terms, 1);
}

#[tokio::test]
async fn a_candidate_without_rights_says_so_at_once() {
    let server = RedisServer::start();
    let rule = ["ACL", "SETUSER", "app", "reset", "on", "~*", "&*", "+@all", "-hset", "nopass"];
    assert_eq!(server.cli(&rule), "OK");
    let url = server.url().replace("redis://", "redis://app:any@");
    let client = Client::builder().visible(false).connect(&url).await.unwrap();
    let led = client.election(NAME).lead(async |_term| Ok::<(), Infallible>(()));
    let error = soon("the refusal", led).await.unwrap_err();
    let LeadError::Campaign(error) = error else { panic!("{error:?}") };
    assert!(error.to_string().contains("can't run this command"), "in the server's words: {error}");
}

/// The next leader comes within the lease of a leader that died, and not after a delay on top of it.
#[tokio::test]
async fn swarm_1227_a_dead_leader_is_followed_within_its_lease() {
    let server = testing::Server::new();
    let (one, other) = (server.client().await.unwrap(), server.client().await.unwrap());
    let term = one.election(NAME).candidate("a").campaign().await.unwrap();
    let second = other.election(NAME).candidate("b");
    let waiting = tokio::spawn(async move { second.campaign().await.unwrap() });
    server.settle().await;
    server.connection(&one).set_reachable(false);
    // The default lease is 10 s.
    server.advance(Duration::from_millis(10_100)).await;
    assert!(waiting.is_finished() && !term.is_valid());
}
