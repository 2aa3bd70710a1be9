//! Every method of the locks, their guards and the client, each checked against the state on the server.

use std::time::Duration;

use leasehold::blocking::{Client, FencedGuard, Guard, MultiLock, QuorumLock, Redlock};
use leasehold::client::ShardedPubsub;
use leasehold::error::{AcquireErrorKind, EnsureErrorKind};
use leasehold::fenced_writes::{FencedScript, Reply};
use leasehold::lock::Tokens;
use leasehold::{AcquireError, EnsureError, FencedWriteError, ReleaseOutcome};
use leasehold_proto::StoreError;
use leasehold_store::embedded::Embedded;
use leasehold_store::{Runtime, TokioRuntime};
use leasehold_testkit::servers::RedisServer;

use crate::blocking::{elsewhere, eventually, server_and_client};
use crate::support::{SOON, fields, is_free, ms, pttl};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_client_connects_in_every_way() {
    let server = RedisServer::start();
    let settings = Client::builder().timeout(ms(900)).poll_interval(ms(50));
    let client = settings.clone().sharded_pubsub(ShardedPubsub::Off).connect(&server.url()).unwrap();
    assert!(!client.lock("job").is_locked().unwrap());
    assert!(settings.clone().timeout(Duration::ZERO).connect(&server.url()).is_err(), "too short");
    let no_server = "redis://127.0.0.1:1";
    assert!(settings.clone().connect(no_server).is_err());
    let lazy = settings.clone().lazy().connect(no_server).unwrap();
    assert!(matches!(
        lazy.lock("job").try_lock(),
        Err(AcquireError { kind: AcquireErrorKind::Store(_), .. })
    ));
    assert!(Client::connect("what://").is_err());

    let now = || TokioRuntime.now().as_nanos() / 1_000_000;
    let open = async move || Ok::<_, StoreError>(Embedded::new(now));
    let client = settings.connect_over(&TokioRuntime, "a store", open).unwrap();
    assert_eq!(client.lock("job").run(|_| client.lock("job").is_locked()), Ok(Ok(true)));
}

#[test]
fn a_client_has_the_given_terms_and_names() {
    let server = RedisServer::start();
    let terms = leasehold::HoldTerms::new().lease(ms(7_000));
    let settings = Client::builder().watchdog(ms(5_000)).defaults(leasehold::Primitive::FairLock, terms);
    let settings = settings.spin_backoff(ms(1), ms(2)).key_prefix("app:").client_name("orders-7");
    let client = settings.connect(&server.url()).unwrap();
    let (guard, fair) = (client.lock("job").lock().unwrap(), client.fair_lock("fair").lock().unwrap());
    assert!(guard.remaining() < ms(5_000) && fair.remaining() > ms(5_000));
    assert!(!is_free(&server, "app:job") && server.cli(&["CLIENT", "LIST"]).contains(" name=orders-7@"));
}

#[cfg(feature = "config")]
#[test]
fn a_configuration_serves_both_apis() {
    use leasehold::config::{Config, ConfigConnectError};

    let one = Config::builder().url("memory://").build().unwrap();
    assert!(Client::from_config(&one).unwrap().lock("job").lock().is_ok());
    let servers = ["memory://q1", "memory://q2", "memory://q3"];
    let persists = Config::builder().set("quorum.urls", servers).set("quorum.persist_every_write", true);
    let quorum = persists.build().unwrap();
    let redlock = Redlock::from_config(&quorum).unwrap();
    assert!(redlock.lock("job").lock().is_ok());
    assert!(matches!(Client::from_config(&quorum), Err(ConfigConnectError::IsQuorum)));
}

#[test]
fn closing_a_client_reports_what_it_released() {
    let (server, client) = server_and_client();
    let guard = client.lock("job").lock().unwrap();
    assert_ne!(client.owner(), client.owner());
    let report = client.close();
    assert_eq!((report.released, report.unconfirmed), (1, 0));
    assert!(!guard.is_held() && is_free(&server, "job"));
}

#[test]
fn a_lock_of_each_kind_is_acquired_and_released() {
    let (server, client) = server_and_client();
    let short = (ms(1), ms(2));
    let guards: [(&str, Guard); 6] = [
        ("plain", client.lock("plain").lock().unwrap()),
        ("fair", client.fair_lock("fair").lock().unwrap()),
        ("fenced", client.fenced_lock("fenced").lock().unwrap().into()),
        ("spin", client.spin_lock("spin").backoff(short.0, short.1).lock().unwrap()),
        ("reading", client.rw_lock("reading").read_lock().lock().unwrap()),
        ("writing", client.rw_lock("writing").write_lock().lock().unwrap()),
    ];
    for (name, guard) in guards {
        assert!(!is_free(&server, name), "{name}");
        assert_eq!(guard.name(), name);
        assert!(guard.as_ref().is_held() && guard.remaining() > ms(20_000));
        assert_eq!(guard.release(), Ok(ReleaseOutcome::Released));
        assert!(is_free(&server, name), "{name}");
    }
}

#[test]
fn a_hold_has_the_terms_of_its_lock() {
    let (server, client) = server_and_client();
    let lock = client.lock("job");
    let guard = lock.clone().lease(MINUTE).lock().unwrap();
    assert!(pttl(&server, "job") > 50_000);
    assert!(fields(&server, "job").contains_key(&guard.wire_owner().to_string()));
    assert!(matches!(
        guard.ensure(2 * MINUTE),
        Err(EnsureError { kind: EnsureErrorKind::TooLong { .. }, .. })
    ));
    guard.ensure(MINUTE / 2).unwrap();
    guard.release().unwrap();

    let guard = lock.clone().watchdog(MINUTE).max_renewals(3).max_hold(10 * MINUTE).lock().unwrap();
    assert!(pttl(&server, "job") > 50_000);
    guard.detach();
    assert!(pttl(&server, "job") > 50_000, "it is kept");
    assert!(lock.force_unlock().unwrap());
    assert!(!lock.force_unlock().unwrap(), "it was free");

    lock.clone().min_hold(MINUTE).lock().unwrap().release().unwrap();
    assert!(lock.is_locked().unwrap(), "for a minute");
    assert!(lock.remaining().unwrap() > Some(MINUTE / 2));
    assert!(lock.clone().max_hold(ms(1)).lock().is_err(), "too short");
}

#[test]
fn a_dropped_guard_releases_without_waiting() {
    let (server, client) = server_and_client();
    drop(client.lock("job").lock().unwrap());
    eventually("the release", || is_free(&server, "job"));
}

#[test]
fn a_fenced_write_rejects_an_older_token() {
    let (server, client) = server_and_client();
    let lock = client.fenced_lock("job").tokens(Tokens::Hybrid);
    let old = lock.lock().unwrap();
    let (token, late) = (old.token(), old.fenced());
    assert_eq!(old.release(), Ok(ReleaseOutcome::Released));
    let new = FencedGuard::from(leasehold::FencedGuard::from(lock.lock().unwrap()));
    assert!(new.token() > token && new.is_held());
    client.fenced(new.token()).set("left", "16").unwrap();
    let refused = late.set("left", "17");
    assert!(matches!(refused, Err(FencedWriteError::Stale { newest, .. }) if newest == new.token()));
    new.fenced().hset("stock", "left", "15").unwrap();
    let script = FencedScript::new("return redis.call('decrby', KEYS[1], ARGV[1])");
    assert_eq!(new.fenced().run(&script, ["left"], ["2"]), Ok(Reply::Int(14)));
    assert_eq!(
        (server.cli(&["GET", "left"]), server.cli(&["HGET", "stock", "left"])),
        ("14".into(), "15".into())
    );
    new.detach();
    assert!(!is_free(&server, "job"));
}

#[test]
fn both_sides_of_a_read_write_lock_work() {
    let (server, client) = server_and_client();
    let sides = client.rw_lock("sides").prefer_writers();
    let reader = sides.read().unwrap();
    let others = sides.clone();
    elsewhere(move || {
        assert!(others.try_write().unwrap().is_none());
        let other = others.try_read().unwrap().unwrap();
        assert_eq!(others.try_write().unwrap_err(), AcquireErrorKind::Deadlock, "the thread reads");
        assert!(others.try_upgrade(&other).unwrap().is_none());
        assert!(others.try_upgrade_for(&other, ms(300)).unwrap().is_none());
        other.release().unwrap();
    });
    let writer = sides.upgrade(&reader).unwrap();
    assert!(sides.write_lock().is_locked().unwrap());
    let others = sides.clone();
    elsewhere(move || {
        assert!(others.try_read_for(ms(300)).unwrap().is_none());
        assert!(others.try_write_for(ms(300)).unwrap().is_none());
    });
    writer.release().unwrap();
    assert!(!sides.write_lock().is_locked().unwrap() && sides.read_lock().is_locked().unwrap());
    assert!(sides.try_upgrade(&reader).unwrap().is_some());
    assert!(sides.try_upgrade_for(&reader, SOON).unwrap().is_some());
    reader.release().unwrap();
    eventually("the sides to be free", || is_free(&server, "sides"));
    sides.write().unwrap().release().unwrap();
    sides.try_write().unwrap().unwrap().release().unwrap();
    sides.try_write_for(SOON).unwrap().unwrap().release().unwrap();
    sides.try_read_for(SOON).unwrap().unwrap().release().unwrap();
    assert!(is_free(&server, "sides"));
}

#[test]
fn both_sides_have_the_terms_of_their_read_write_lock() {
    let (server, client) = server_and_client();
    let mine = client.owner();
    let sides = client.rw_lock("sides").owned_by(&mine);
    let writer = sides.clone().lease(MINUTE).write().unwrap();
    assert!(pttl(&server, "sides") > 50_000);
    let reader = elsewhere({
        let sides = sides.clone();
        move || sides.try_read().unwrap().unwrap()
    });
    assert!(sides.write_lock().is_held_by(&mine).unwrap());
    drop((reader, writer));
    eventually("the sides to be free", || is_free(&server, "sides"));
    let bounded = sides.clone().watchdog(MINUTE).max_hold(10 * MINUTE).max_renewals(1);
    let reader = bounded.read().unwrap();
    assert!(pttl(&server, "sides") > 50_000);
    reader.release().unwrap();
    sides.min_hold(MINUTE).read().unwrap().release().unwrap();
    assert!(!is_free(&server, "sides"), "for a minute");
}

#[test]
fn several_locks_are_acquired_together() {
    let (server, client) = server_and_client();
    let plain = client.lock("one");
    let both = MultiLock::of([(&plain).into(), client.fair_lock("two").into()]);
    let guard = both.lock().unwrap();
    assert!(guard.is_held() && guard.remaining() > ms(20_000));
    guard.ensure(ms(5_000)).unwrap();
    assert_eq!(AsRef::<[leasehold::Guard]>::as_ref(&guard).len(), 2);
    assert!(!is_free(&server, "one") && !is_free(&server, "two"));
    let others = both.clone();
    elsewhere(move || {
        assert!(others.try_lock().unwrap().is_none());
        assert!(others.try_lock_for(ms(300)).unwrap().is_none());
    });
    assert_eq!(guard.release(), Ok(ReleaseOutcome::Released));
    assert!(is_free(&server, "one") && is_free(&server, "two"));
    both.try_lock_for(SOON).unwrap().unwrap().detach();
    assert!(!is_free(&server, "one") && !is_free(&server, "two"));
    client.close();
    let elsewhere =
        MultiLock::of([Client::connect(&server.url()).unwrap().lock("three").lease(ms(300)).into()]);
    elsewhere.lock().unwrap().lost();
}

#[test]
fn a_majority_of_servers_grants_a_lock() {
    let servers = [RedisServer::start(), RedisServer::start(), RedisServer::start()];
    let urls = servers.each_ref().map(RedisServer::url);
    let urls = || urls.iter().map(String::as_str);
    let held_on = || servers.iter().filter(|server| !is_free(*server, "job")).count();
    let builder =
        Redlock::builder().node_timeout(MINUTE / 60).poll_interval(ms(100)).longest_lease(2 * MINUTE);
    let young = builder.clone().connect(urls()).unwrap();
    assert!(young.lock("job").try_lock().is_err(), "the servers came up too recently");
    assert!(Redlock::connect(urls()).unwrap().lock("job").try_lock().is_err());

    let redlock = builder.nodes_persist_every_write().connect(urls()).unwrap();
    let lock: QuorumLock = redlock.lock("job");
    let guard = lock.lock().unwrap();
    eventually("every node to hold it", || held_on() == 3 && guard.votes() == 3);
    assert!(guard.is_held() && guard.remaining() > ms(20_000));
    guard.ensure(ms(5_000)).unwrap();
    let others = lock.clone();
    elsewhere(move || {
        assert!(others.try_lock().unwrap().is_none());
        assert!(others.try_lock_for(ms(300)).unwrap().is_none());
    });
    assert_eq!(guard.release(), Ok(ReleaseOutcome::Released));
    eventually("every node to be free", || held_on() == 0);
    lock.clone().watchdog(MINUTE).try_lock().unwrap().unwrap().detach();
    assert!(held_on() >= 2, "it is kept");
    let guard = redlock.lock("short").lease(ms(100)).try_lock_for(MINUTE).unwrap().unwrap();
    guard.lost();
    assert!(!guard.is_held());
    redlock.close();
    assert!(redlock.lock("other").try_lock().is_err());
}
