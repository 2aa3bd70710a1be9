//! The metrics of clients of real servers, as a Prometheus exporter renders them. The recorder is that of the program, so
//! these tests have a program of their own.
//!
//! Invariant: each test has groups of its own, because all tests share the recorder.

#![allow(clippy::unwrap_used, reason = "helpers of tests are test code too")]
#![allow(clippy::disallowed_methods, reason = "test code: tasks and real time")]

use std::future::Future;
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use leasehold::observe::{BUCKETS, Fact, Observer};
use leasehold::{Client, LostReason};
use leasehold_testkit::proxy::Proxy;
use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::answered;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

const SOON: Duration = Duration::from_secs(20);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Returns the page of the exporter.
fn page() -> String {
    static EXPORTER: OnceLock<PrometheusHandle> = OnceLock::new();
    let install = || {
        let mut builder = PrometheusBuilder::new();
        for (name, buckets) in BUCKETS {
            builder = builder.set_buckets_for_metric(Matcher::Full((*name).to_owned()), buckets).unwrap();
        }
        builder.install_recorder().unwrap()
    };
    EXPORTER.get_or_init(install).render()
}

/// Returns the value of a series.
fn value(series: &str) -> Option<f64> {
    page().lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

fn of_outcome(group: &str, outcome: &str) -> String {
    format!("leasehold_acquires_total{{kind=\"lock\",group=\"{group}\",outcome=\"{outcome}\"}}")
}

/// Waits until a series has this value, because the client's thread counts too.
async fn becomes(series: &str, expected: f64) {
    answered(SOON, series, async || (value(series) == Some(expected)).then_some(())).await;
}

/// Waits until a series is above zero.
async fn counts(series: &str) {
    answered(SOON, series, async || value(series).filter(|count| *count >= 1.0)).await;
}

async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(SOON, future).await.unwrap()
}

async fn connect(server: &RedisServer) -> Client {
    page();
    Client::builder().patience(ms(50)).timeout(ms(500)).connect(&server.url()).await.unwrap()
}

#[tokio::test]
async fn each_outcome_of_an_acquire_is_counted() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let lock = client.lock("outcome:1");
    let guard = lock.lock().await.unwrap();
    assert!(lock.try_lock().await.unwrap().is_none());
    assert!(lock.try_lock_for(ms(50)).await.unwrap().is_none());
    assert!(tokio::time::timeout(ms(20), lock.lock()).await.is_err());
    guard.release().await.unwrap();
    assert_eq!(server.cli(&["HSET", "outcome:2", "no-expiry", "1"]), "1");
    assert!(client.lock("outcome:2").try_lock().await.is_err());
    let nowhere = Client::builder().lazy().timeout(ms(100)).connect("redis://127.0.0.1:1").await.unwrap();
    assert!(soon(nowhere.lock("outcome:3").try_lock()).await.is_err());
    client.close().await;
    assert!(lock.try_lock().await.is_err());
    for outcome in ["acquired", "busy", "timeout", "cancelled", "refused", "unavailable", "closed"] {
        becomes(&of_outcome("outcome:*", outcome), 1.0).await;
    }
    for gauge in ["held", "waiting"] {
        becomes(&format!("leasehold_{gauge}{{kind=\"lock\",group=\"outcome:*\"}}"), 0.0).await;
    }
}

#[tokio::test]
async fn an_unknown_outcome_and_its_undo_are_counted() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    page();
    let client = Client::builder().timeout(ms(250)).connect(&proxy.url()).await.unwrap();
    proxy.drop_replies(true);
    assert!(soon(client.lock("unclear").try_lock()).await.is_err());
    proxy.drop_replies(false);
    becomes(&of_outcome("unclear", "unknown"), 1.0).await;
    // Other tests add to these.
    counts("leasehold_unknown_total{verb=\"acquire\"}").await;
    counts("leasehold_undone_total{verb=\"acquire\"}").await;
}

#[tokio::test]
async fn a_long_wait_a_renewal_and_a_loss_are_counted() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let of_group = |name: &str| format!("leasehold_{name}{{kind=\"fenced lock\",group=\"report\"}}");
    let lock = client.fenced_lock("report").watchdog(ms(600));
    let first = lock.lock().await.unwrap();
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { lock.lock().await.unwrap() }
    });
    becomes(&of_group("waiting"), 1.0).await;
    becomes(&of_group("waiting_long"), 1.0).await;
    becomes(&of_group("held"), 1.0).await;
    counts("leasehold_renewals_total{outcome=\"confirmed\"}").await;
    first.release().await.unwrap();
    let second = soon(waiting).await.unwrap();
    becomes(&of_group("waiting_long"), 0.0).await;
    assert_eq!(server.cli(&["DEL", "report"]), "1");
    assert_eq!(soon(second.lost()).await, LostReason::Deleted);
    let lost = "leasehold_lost_total{kind=\"fenced lock\",group=\"report\",reason=\"deleted\"}";
    becomes(lost, 1.0).await;
    for (name, expected) in
        [("held", 0.0), ("waiting", 0.0), ("hold_seconds_count", 2.0), ("wait_seconds_count", 2.0)]
    {
        becomes(&of_group(name), expected).await;
    }
    let page = page();
    for (name, buckets) in BUCKETS {
        assert!(page.contains(&format!("# TYPE {name} histogram")), "{name}");
        for bucket in *buckets {
            let label = format!("le=\"{bucket}\"");
            let has = |line: &str| line.starts_with(&format!("{name}_bucket")) && line.contains(&label);
            assert!(page.lines().any(has), "{name} {label}");
        }
    }
    assert!(!page.contains("summary") && !page.contains("quantile="), "{page}");
    let call = "leasehold_call_seconds_count{verb=\"acquire\",outcome=\"ok\"}";
    assert!(value(call).is_some_and(|count| count >= 2.0));
    let info = format!(
        "leasehold_client_info{{version=\"{}\",topology=\"single\",tier=\"unconfirmed\"}}",
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(value(&info), Some(1.0));
}

#[tokio::test]
async fn chosen_names_are_counted_apart() {
    let server = RedisServer::start();
    page();
    let client = Client::builder().per_name(["nightly:2"]).connect(&server.url()).await.unwrap();
    client.lock("nightly:2").lock().await.unwrap().release().await.unwrap();
    client.lock("nightly:3").lock().await.unwrap().release().await.unwrap();
    becomes(&of_outcome("nightly:2", "acquired"), 1.0).await;
    becomes(&of_outcome("nightly:*", "acquired"), 1.0).await;
}

/// An observer that stands still on the thread of observers, until it may go on.
#[derive(Default)]
struct Stuck {
    may_go_on: Mutex<bool>,
    goes_on: Condvar,
}

impl Observer for Stuck {
    fn fact(&self, _: &Fact<'_>) {
        if std::thread::current().name() == Some("leasehold-observe") {
            let may_go_on = self.may_go_on.lock().unwrap();
            drop(self.goes_on.wait_while(may_go_on, |may_go_on| !*may_go_on).unwrap());
        }
    }
}

#[tokio::test]
async fn an_observer_that_stands_still_keeps_no_loss_from_being_counted() {
    let server = RedisServer::start();
    page();
    let stuck = Arc::new(Stuck::default());
    let client = Client::builder().observer(Arc::clone(&stuck)).connect(&server.url()).await.unwrap();
    let guard = client.lock("behind-a-log").watchdog(ms(300)).lock().await.unwrap();
    assert_eq!(server.cli(&["DEL", "behind-a-log"]), "1");
    assert_eq!(soon(guard.lost()).await, LostReason::Deleted);
    becomes("leasehold_lost_total{kind=\"lock\",group=\"behind-a\",reason=\"deleted\"}", 1.0).await;
    *stuck.may_go_on.lock().unwrap() = true;
    stuck.goes_on.notify_all();
}
