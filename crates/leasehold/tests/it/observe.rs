//! What observers are told, by clients of a real server.

use std::sync::{Arc, Mutex};

use leasehold::observe::{Fact, GrantedBy, Observer, Outcome, What};
use leasehold::{Client, LostReason};
use leasehold_testkit::servers::RedisServer;

use crate::support::{eventually, ms, soon};

/// An observer that keeps each fact as a line.
#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl Observer for Lines {
    fn fact(&self, fact: &Fact<'_>) {
        let what = match fact.what {
            What::Waiting => "waiting".to_owned(),
            What::Patient { again, .. } => format!("patient again={again}"),
            What::Acquired { by, attempts, token, was_waiting, .. } => {
                let by = match by {
                    GrantedBy::Server => "server",
                    GrantedBy::HandOff => "hand-off",
                    GrantedBy::Reentry => "re-entry",
                    _ => "event",
                };
                format!("acquired by {by} attempts={attempts} token={} waited={was_waiting}", token.is_some())
            }
            What::NotAcquired { outcome, .. } => format!("not acquired: {}", outcome.label()),
            What::Released { detached, .. } => format!("released detached={detached}"),
            What::Lost { reason, .. } => format!("lost: {reason}"),
            What::Renewed { left, .. } => format!("renewed {}", left > 0.5),
            What::Called { .. } => return,
            other => format!("{other:?}"),
        };
        let line = format!(
            "{} {} {}: {what}",
            fact.kind.unwrap_or_default(),
            fact.name.unwrap_or_default(),
            fact.group.unwrap_or_default()
        );
        self.0.lock().unwrap().push(line);
    }
}

impl Lines {
    fn of(&self, name: &str) -> Vec<String> {
        let text = format!(" {name} ");
        let lines = self.0.lock().unwrap();
        let of_name = lines.iter().filter(|line| line.contains(&text));
        of_name.map(|line| line.split_once(": ").unwrap().1.to_owned()).collect()
    }
}

async fn observed(server: &RedisServer) -> (Client, Arc<Lines>) {
    let lines = Arc::new(Lines::default());
    let builder = Client::builder().observer(Arc::clone(&lines)).patience(ms(50)).key_prefix("shop:");
    (builder.connect(&server.url()).await.unwrap(), lines)
}

#[tokio::test]
async fn each_acquire_and_hold_has_its_facts() {
    let server = RedisServer::start();
    let (client, lines) = observed(&server).await;
    let lock = client.fenced_lock("order:42");
    let guard = lock.lock().await.unwrap();
    assert!(lock.try_lock().await.unwrap().is_none());
    assert!(lock.try_lock_for(ms(120)).await.unwrap().is_none());
    guard.release().await.unwrap();
    lock.lock().await.unwrap().detach();
    // The client's thread tells the end of the wait and the patience, so their order among the others is open.
    let is_patient = |line: &String| line.starts_with("patient");
    let others = || lines.of("order:42").into_iter().filter(|line| !is_patient(line)).collect::<Vec<_>>();
    eventually("all facts", || others().len() == 7).await;
    let mut told = others();
    told.sort_unstable();
    let acquired = "acquired by server attempts=1 token=true waited=false";
    let expected = [
        acquired,
        acquired,
        "not acquired: busy",
        "not acquired: timeout",
        "released detached=false",
        "released detached=true",
        "waiting",
    ];
    assert_eq!(told, expected);
    let patient: Vec<_> = lines.of("order:42").into_iter().filter(is_patient).collect();
    assert_eq!(patient.first().map(String::as_str), Some("patient again=false"));
    let lines = lines.0.lock().unwrap();
    assert!(lines.iter().all(|line| line.starts_with("fenced lock order:42 order:*: ")), "{lines:#?}");
}

#[tokio::test]
async fn a_hand_off_and_a_loss_are_told() {
    let server = RedisServer::start();
    let (client, lines) = observed(&server).await;
    let lock = client.lock("report").watchdog(ms(300));
    let guard = lock.lock().await.unwrap();
    let (next, ()) = tokio::join!(lock.lock(), async {
        eventually("the waiter", || lines.of("report").iter().any(|line| line == "waiting")).await;
        drop(guard);
    });
    let next = next.unwrap();
    assert_eq!(server.cli(&["DEL", "shop:report"]), "1");
    assert_eq!(soon("the loss", next.lost()).await, LostReason::Deleted);
    let lost = format!("lost: {}", LostReason::Deleted);
    eventually("the fact", || lines.of("report").contains(&lost)).await;
    drop(next);
    let told = lines.of("report");
    assert_eq!(told.iter().filter(|line| line.starts_with("released")).count(), 1, "{told:#?}");
    assert!(told.iter().any(|line| line.contains("waited=true")), "{told:#?}");
}

#[tokio::test]
async fn a_dropped_future_and_a_latch_are_told() {
    let server = RedisServer::start();
    let (client, lines) = observed(&server).await;
    let _guard = client.lock("job").lock().await.unwrap();
    assert!(tokio::time::timeout(ms(20), client.lock("job").lock()).await.is_err());
    assert_eq!(lines.of("job").last().map(String::as_str), Some("not acquired: cancelled"));
    let latch = client.count_down_latch("gate");
    latch.wait().await.unwrap();
    eventually("the opening", || !lines.of("gate").is_empty()).await;
    assert_eq!(lines.of("gate"), ["acquired by event attempts=1 token=false waited=false"]);
}

/// An observer that panics at its first fact.
struct Panics;

impl Observer for Panics {
    fn fact(&self, _: &Fact<'_>) {
        panic!("an observer of a test panics");
    }
}

#[tokio::test]
async fn an_observer_that_panics_is_told_nothing_more_and_the_client_goes_on() {
    let server = RedisServer::start();
    let lines = Arc::new(Lines::default());
    let builder = Client::builder().observer(Panics).observer(Arc::clone(&lines));
    let client = builder.connect(&server.url()).await.unwrap();
    client.lock("job").lock().await.unwrap().release().await.unwrap();
    assert!(client.lock("job").try_lock().await.unwrap().is_some());
    assert_eq!(lines.of("job").len(), 4);
    assert_eq!(Outcome::Busy.label(), "busy");
}
