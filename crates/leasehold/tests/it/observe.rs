//! What observers are told, by clients of a real server.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use leasehold::observe::{Fact, GrantedBy, Names, Observer, Outcome, What};
use leasehold::{Client, LostReason};
use leasehold_testkit::servers::RedisServer;

use crate::support::{eventually, ms, soon};

/// An observer that keeps each fact about a name as a line.
#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

/// An observer that keeps each fact about a connection as a line.
#[derive(Default)]
struct Connections(Mutex<Vec<String>>);

impl Observer for Connections {
    fn fact(&self, fact: &Fact<'_>) {
        let line = match fact.what {
            What::Connected { port, connection, again, moved, .. } => {
                format!("{} {port:?} connected again={again} moved={moved}", connection.label())
            }
            What::Disconnected { port, connection, by_server, .. } => {
                format!("{} {port:?} disconnected by_server={by_server}", connection.label())
            }
            _ => return,
        };
        self.0.lock().unwrap().push(line);
    }
}

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
            What::Called { .. } | What::Connected { .. } | What::Disconnected { .. } => return,
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

#[tokio::test]
async fn connections_that_open_and_end_are_told() {
    let server = RedisServer::start();
    let told = Arc::new(Connections::default());
    let client = Client::builder().observer(Arc::clone(&told)).connect(&server.url()).await.unwrap();
    let lines = || told.0.lock().unwrap().clone();
    let line = |what: &str, text: &str| format!("{what} {:?} {text}", Some(server.port()));
    let opened = line("command", "connected again=false moved=false");
    eventually("the connection", || lines() == [opened.clone()]).await;
    let guard = client.lock("job").lock().await.unwrap();
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.lock("job").lock().await.map(drop) }
    });
    let listening = line("pubsub", "connected again=false moved=false");
    eventually("the subscription", || lines().contains(&listening)).await;
    let _ = server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    let ended = line("pubsub", "disconnected by_server=true");
    let again = line("pubsub", "connected again=true moved=false");
    eventually("the next subscription", || lines().contains(&again)).await;
    assert!(lines().contains(&ended), "{:#?}", lines());
    guard.release().await.unwrap();
    soon("the waiter", waiting).await.unwrap().unwrap();
    client.close().await;
    drop(client);
    let closed = ["command", "pubsub"].map(|what| line(what, "disconnected by_server=false"));
    eventually("the end", || closed.iter().all(|line| lines().contains(line))).await;
}

/// An observer that keeps the name and the group of each fact.
#[derive(Default)]
struct Groups(Mutex<Vec<(String, String)>>);

impl Observer for Groups {
    fn fact(&self, fact: &Fact<'_>) {
        if let (Some(name), Some(group)) = (fact.name, fact.group) {
            self.0.lock().unwrap().push((name.to_owned(), group.to_owned()));
        }
    }
}

impl Groups {
    /// Returns the groups that were told of a name, each once.
    fn of(&self, name: &str) -> Vec<String> {
        let told = self.0.lock().unwrap();
        let groups: BTreeSet<_> =
            told.iter().filter(|(of, _)| of == name).map(|(_, group)| group.clone()).collect();
        groups.into_iter().collect()
    }
}

#[leasehold::locked(name = "order:{id}", client = client)]
async fn in_section(client: &Client, id: u32) -> Result<(), leasehold::RunError> {
    let _ = id;
    Ok(())
}

#[tokio::test]
async fn a_group_is_that_of_the_lock_and_else_that_of_the_client() {
    let server = RedisServer::start();
    let told = Arc::new(Groups::default());
    let builder = Client::builder().observer(Arc::clone(&told)).group_by(|_| "by rule".into());
    let client = builder.per_name(["chosen"]).connect(&server.url()).await.unwrap();
    client.lock("plain").lock().await.unwrap().release().await.unwrap();
    client.lock("set").group("orders").lock().await.unwrap().release().await.unwrap();
    client.lock("chosen").group("orders").lock().await.unwrap().release().await.unwrap();
    in_section(&client, 7).await.unwrap();
    client.lock("detached").group("orders").lock().await.unwrap().detach();
    client.rw_lock("shared").group("orders").write_lock().lock().await.unwrap().release().await.unwrap();
    let semaphore = client.semaphore("permits").group("orders");
    semaphore.try_set_permits(1).await.unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    let permits = client.expirable_semaphore("leases").group("orders");
    permits.try_set_permits(1).await.unwrap();
    permits.acquire().await.unwrap().release().await.unwrap();
    client.count_down_latch("latch").group("orders").wait().await.unwrap();
    let lost = client.lock("lost").group("orders").watchdog(ms(300)).lock().await.unwrap();
    assert_eq!(server.cli(&["DEL", "lost"]), "1");
    assert_eq!(soon("the loss", lost.lost()).await, LostReason::Deleted);
    eventually("the loss and a renewal", || told.of("lost") == ["orders"]).await;
    for (name, group) in [
        ("plain", "by rule"),
        ("chosen", "chosen"),
        ("order:7", "order:{id}"),
        ("set", "orders"),
        ("detached", "orders"),
        ("shared", "orders"),
        ("permits", "orders"),
        ("leases", "orders"),
        ("latch", "orders"),
    ] {
        assert_eq!(told.of(name), [group], "{name}");
    }
}

#[tokio::test]
async fn hidden_names_are_told_as_their_groups() {
    let server = RedisServer::start();
    let told = Arc::new(Groups::default());
    let builder = Client::builder().observer(Arc::clone(&told)).names(Names::Hidden).patience(ms(20));
    let client = builder.connect(&server.url()).await.unwrap();
    let guard = client.lock("user:7:alice").lock().await.unwrap();
    let set = client.lock("alice").group("users").lock().await.unwrap();
    assert!(client.lock("user:7:alice").try_lock_for(ms(100)).await.unwrap().is_none());
    guard.release().await.unwrap();
    set.release().await.unwrap();
    eventually("the facts", || told.of("user:*") == ["user:*"] && told.of("users") == ["users"]).await;
    let told = told.0.lock().unwrap();
    assert!(told.iter().all(|(name, group)| !name.contains("alice") && name == group), "{told:#?}");
}
