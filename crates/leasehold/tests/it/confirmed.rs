//! Locks whose replicas confirm each call, beside locks of the same client that need none, on a real master with replicas.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::error::AcquireErrorKind;
use leasehold::lock::Kind;
use leasehold::{Client, Confirm, HoldTerms, Lock, LostReason, Primitive, RunError, locked};
use leasehold_testkit::fleets::Sentinels;
use leasehold_testkit::servers::RedisServer;
use tokio::time::timeout;

use crate::support::{SOON, eventually, ms};

/// The time for the replicas, which a busy machine needs too.
const WITHIN: Duration = Duration::from_secs(3);

const BOTH: Confirm = Confirm::AtLeast(2);

async fn connect(fleet: &Sentinels) -> Client {
    let builder = Client::builder().timeout(2 * WITHIN).replicas_within(WITHIN);
    builder.connect(&fleet.url()).await.unwrap()
}

fn master(fleet: &Sentinels) -> &RedisServer {
    &fleet.nodes()[fleet.master()]
}

fn calls(server: &RedisServer, command: &str) -> u64 {
    let of = |stats: BTreeMap<String, u64>| stats.get(command).copied();
    of(server.commandstats()).unwrap_or_default()
}

/// Returns the number of `WAIT` that a master got meanwhile.
async fn waits(fleet: &Sentinels, meanwhile: impl Future) -> u64 {
    let before = calls(master(fleet), "wait");
    meanwhile.await;
    calls(master(fleet), "wait") - before
}

async fn hold_once<K: Kind>(lock: Lock<K>) {
    let guard: leasehold::Guard = lock.lock().await.unwrap().into();
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_confirm_the_locks_that_ask_for_it_alone() {
    let fleet = Sentinels::start();
    let client = connect(&fleet).await;
    assert_eq!(waits(&fleet, hold_once(client.lock("plain"))).await, 0);
    assert_eq!(
        waits(&fleet, hold_once(client.lock("both").replicas(BOTH))).await,
        1,
        "the release needs none"
    );
    assert_eq!(waits(&fleet, hold_once(client.fair_lock("fair").replicas(BOTH))).await, 1);
    assert_eq!(waits(&fleet, hold_once(client.spin_lock("spin").replicas(BOTH))).await, 1);
    let rw = client.rw_lock("rw").replicas(BOTH);
    assert_eq!(waits(&fleet, async { drop(rw.read().await.unwrap()) }).await, 1);
    assert_eq!(waits(&fleet, async { drop(rw.write().await.unwrap()) }).await, 1);
    let permits = client.expirable_semaphore("permits");
    permits.try_set_permits(1).await.unwrap();
    assert_eq!(
        waits(&fleet, async { drop(permits.clone().replicas(BOTH).acquire().await.unwrap()) }).await,
        1
    );
    for replica in fleet.replicas() {
        assert_eq!(fleet.nodes()[replica].cli(&["EXISTS", "permits"]), "1");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policy_of_a_lock_takes_the_place_of_that_of_its_primitive_and_its_client() {
    let fleet = Sentinels::start();
    let builder = Client::builder().timeout(2 * WITHIN).replicas_within(WITHIN).replicas(Confirm::AtLeast(1));
    let defaults = HoldTerms::new().replicas(Confirm::None);
    let client = builder.defaults(Primitive::SpinLock, defaults).connect(&fleet.url()).await.unwrap();
    assert_eq!(waits(&fleet, hold_once(client.lock("client"))).await, 1);
    assert_eq!(waits(&fleet, hold_once(client.lock("lock").replicas(Confirm::None))).await, 0);
    assert_eq!(waits(&fleet, hold_once(client.spin_lock("primitive"))).await, 0);
    assert_eq!(waits(&fleet, hold_once(client.spin_lock("both").replicas(BOTH))).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_re_entry_never_weakens_the_policy_of_the_client() {
    let fleet = Sentinels::start();
    let builder = Client::builder().timeout(2 * WITHIN).replicas_within(WITHIN).replicas(Confirm::AtLeast(1));
    let client = builder.watchdog(WITHIN).connect(&fleet.url()).await.unwrap();
    let owner = client.owner();
    for (name, first, second) in
        [("weaker", None, Some(Confirm::None)), ("stricter", Some(Confirm::None), None)]
    {
        let enter = |policy: Option<Confirm>| {
            let lock = client.lock(name).owned_by(&owner);
            async move { policy.into_iter().fold(lock, Lock::replicas).lock().await.unwrap() }
        };
        let _guards = (enter(first).await, enter(second).await);
        let before = calls(master(&fleet), "wait");
        let is_confirmed = || calls(master(&fleet), "wait") > before;
        eventually(&format!("a confirmed renewal of the lock `{name}`"), is_confirmed).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_writes_of_a_hold_have_its_policy() {
    let fleet = Sentinels::start();
    let client = connect(&fleet).await;
    let guard = client.fenced_lock("stock").replicas(BOTH).lock().await.unwrap();
    let (writes, token) = (guard.fenced(), guard.token());
    assert_eq!(waits(&fleet, async { writes.set("left", "1").await.unwrap() }).await, 1);
    assert_eq!(waits(&fleet, async { client.fenced(token).set("left", "2").await.unwrap() }).await, 0);
    let elsewhere = client.fenced(token).replicas(BOTH);
    assert_eq!(waits(&fleet, async { elsewhere.set("left", "3").await.unwrap() }).await, 1);
    for replica in fleet.replicas() {
        assert_eq!(fleet.nodes()[replica].cli(&["GET", "left"]), "3");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_a_frozen_replica_does_not_confirm_is_undone_and_keeps_no_other_waiting() {
    let fleet = Sentinels::start();
    let client = connect(&fleet).await;
    let confirmed = client.lock("confirmed").replicas(BOTH);
    hold_once(confirmed.clone()).await;
    fleet.freeze(fleet.replicas()[0]);
    let acquire = tokio::spawn(async move { confirmed.try_lock().await.map(drop) });
    let is_waiting = || master(&fleet).cli(&["INFO", "clients"]).contains("blocked_clients:1");
    eventually("the WAIT of the acquire", is_waiting).await;
    for _ in 0..3 {
        hold_once(client.lock("plain")).await;
    }
    assert!(!acquire.is_finished(), "the other lock has waited for the replicas");
    let error = timeout(SOON, acquire).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(error.kind, AcquireErrorKind::Unknown { .. }), "{error}");
    eventually("the acquire to be undone", || master(&fleet).cli(&["EXISTS", "confirmed"]) == "0").await;
    hold_once(client.lock("weaker").replicas(Confirm::AtLeast(1))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_that_the_replicas_did_not_confirm_gives_no_validity() {
    let fleet = Sentinels::start();
    let builder = Client::builder().timeout(2 * WITHIN).replicas_within(ms(300)).watchdog(WITHIN);
    let client = builder.connect(&fleet.url()).await.unwrap();
    let plain = client.lock("plain").lock().await.unwrap();
    let guard = client.lock("confirmed").replicas(BOTH).lock().await.unwrap();
    fleet.freeze(fleet.replicas()[0]);
    let reason = timeout(SOON, guard.lost()).await.expect("the validity ends");
    assert_eq!(reason, LostReason::Unreachable);
    assert!(plain.is_held(), "its renewals need no replica");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_of_releases_does_not_count_the_replicas() {
    let server = RedisServer::start();
    let client = Client::builder().replicas(Confirm::all(0)).connect(&server.url()).await.unwrap();
    let guard = client.lock("one").lock().await.unwrap();
    let counted = calls(&server, "info");
    let whole = guard.remaining();
    eventually("the count of the replicas to be old", || whole - guard.remaining() > ms(1_200)).await;
    guard.release().await.unwrap();
    assert_eq!(calls(&server, "info"), counted + 1, "the test asks itself");
    hold_once(client.lock("one")).await;
    assert_eq!(calls(&server, "info"), counted + 3, "the next acquire counts them");
}

#[locked(name = "plain", client = client)]
async fn plain_body(client: &Client) -> Result<(), RunError> {
    Ok(())
}

#[locked(name = "pay:{id}", replicas = policy, client = client)]
async fn confirmed_body(client: &Client, id: u8, policy: Confirm) -> Result<(), RunError> {
    Ok(())
}

#[locked(name = "permits", kind = semaphore(1), replicas = Confirm::all(2), client = client)]
async fn confirmed_permit(client: &Client) -> Result<(), RunError> {
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_confirm_the_bodies_whose_attribute_asks_for_it() {
    let fleet = Sentinels::start();
    let client = connect(&fleet).await;
    assert_eq!(waits(&fleet, async { plain_body(&client).await.unwrap() }).await, 0);
    assert_eq!(waits(&fleet, async { confirmed_body(&client, 1, Confirm::None).await.unwrap() }).await, 0);
    assert_eq!(waits(&fleet, async { confirmed_body(&client, 2, BOTH).await.unwrap() }).await, 1);
    let permit = async || waits(&fleet, async { confirmed_permit(&client).await.unwrap() }).await;
    assert_eq!((permit().await, permit().await), (2, 1), "the first call also sets the number of permits");
    let error = confirmed_body(&client, 3, Confirm::AtLeast(3)).await.unwrap_err();
    assert!(matches!(error, RunError::Acquire(_)), "the fleet has two replicas: {error:?}");
}

#[cfg(feature = "blocking")]
#[test]
fn a_blocking_lock_has_a_policy_too() {
    use leasehold::blocking;

    let fleet = Sentinels::start();
    let builder = blocking::Client::builder().timeout(2 * WITHIN).replicas_within(WITHIN);
    let client = builder.connect(&fleet.url()).unwrap();
    client.lock("plain").lock().unwrap().release().unwrap();
    assert_eq!(calls(master(&fleet), "wait"), 0);
    client.lock("both").replicas(BOTH).lock().unwrap().release().unwrap();
    let guard = client.fenced_lock("stock").replicas(BOTH).lock().unwrap();
    guard.fenced().set("left", "1").unwrap();
    client.fenced(guard.token()).replicas(BOTH).set("left", "2").unwrap();
    assert_eq!(calls(master(&fleet), "wait"), 4);
}
