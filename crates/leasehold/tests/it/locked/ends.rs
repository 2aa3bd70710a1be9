//! The ends of a body and their effect on the lock: values, errors, panics, losses, dropped calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use leasehold::{Client, LostReason, RunError, locked};
use tokio::sync::oneshot::{Receiver, Sender, channel};

use crate::support::{Fixture, connect, count, eventually, is_free, on_both, run_command, soon};

on_both! {
    async {
        a_question_mark_ends_the_body_and_releases_the_lock,
        errors_of_every_kind_can_report_that_the_body_did_not_run,
        a_return_ends_the_body_and_releases_the_lock,
        a_panic_releases,
        dropping_the_call_releases,
        a_body_is_dropped_when_its_lock_is_lost,
        a_body_with_on_lost_finish_completes_after_a_loss,
        functions_that_call_each_other_re_enter,
        functions_side_by_side_exclude_each_other,
        arguments_are_dropped_under_the_lock,
    }
}

#[derive(Debug, PartialEq)]
enum PayError {
    NotLocked(RunError),
    Number(std::num::ParseIntError),
    Refused,
}

impl From<RunError> for PayError {
    fn from(error: RunError) -> Self {
        Self::NotLocked(error)
    }
}

impl From<std::num::ParseIntError> for PayError {
    fn from(error: std::num::ParseIntError) -> Self {
        Self::Number(error)
    }
}

#[locked(name = "job", client = client)]
async fn pay(client: &Client, amount: &str) -> Result<u64, PayError> {
    let amount: u64 = amount.parse()?;
    let fee = async { Err::<u64, PayError>(PayError::Refused) };
    if amount == 0 {
        return Err(PayError::Refused);
    }
    if amount == 13 {
        return fee.await;
    }
    Ok(amount)
}

async fn a_question_mark_ends_the_body_and_releases_the_lock(server: Fixture) {
    let client = connect(&server).await;
    assert_eq!(pay(&client, "42").await, Ok(42));
    assert!(matches!(pay(&client, "a lot").await, Err(PayError::Number(_))));
    assert!(is_free(&server, "job"));
    client.close().await;
    assert!(matches!(pay(&client, "42").await, Err(PayError::NotLocked(RunError::Acquire(_)))));
}

#[locked(name = "job", client = client)]
async fn anyhow(client: &Client, amount: &str) -> anyhow::Result<u64> {
    anyhow::ensure!(!amount.is_empty(), "nothing");
    Ok(amount.parse()?)
}

#[locked(name = "job", client = client)]
async fn boxed(client: &Client) -> Result<(), Box<dyn std::error::Error>> {
    Err("nothing")?
}

#[locked(name = "job", client = client)]
async fn ours(client: &Client) -> Result<bool, leasehold::Error> {
    Ok(client.lock("other").is_locked().await?)
}

async fn errors_of_every_kind_can_report_that_the_body_did_not_run(server: Fixture) {
    let client = connect(&server).await;
    assert_eq!(anyhow(&client, "42").await.unwrap(), 42);
    assert_eq!(anyhow(&client, "").await.unwrap_err().to_string(), "nothing");
    assert!(anyhow(&client, "a lot").await.unwrap_err().is::<std::num::ParseIntError>());
    assert_eq!(boxed(&client).await.unwrap_err().to_string(), "nothing");
    assert!(!ours(&client).await.unwrap());
    client.close().await;
    assert!(anyhow(&client, "42").await.unwrap_err().is::<RunError>());
    assert!(boxed(&client).await.unwrap_err().is::<RunError>());
    assert!(matches!(ours(&client).await, Err(leasehold::Error::Run(RunError::Acquire(_)))));
}

async fn a_return_ends_the_body_and_releases_the_lock(server: Fixture) {
    let client = connect(&server).await;
    assert_eq!(pay(&client, "0").await, Err(PayError::Refused));
    assert_eq!(pay(&client, "13").await, Err(PayError::Refused));
    assert!(is_free(&server, "job"));
}

#[locked(name = "job", client = client)]
async fn panics(client: Client) -> Result<(), RunError> {
    panic!("as it should")
}

async fn a_panic_releases(server: Fixture) {
    let client = connect(&server).await;
    let outcome = soon("the panic", tokio::spawn(panics(client.clone()))).await;
    assert!(outcome.unwrap_err().is_panic());
    eventually("the release", || is_free(&server, "job")).await;
}

#[locked(name = "job", client = client)]
async fn never_ends(client: &Client, begun: Sender<()>) -> Result<(), RunError> {
    begun.send(()).unwrap();
    std::future::pending().await
}

async fn dropping_the_call_releases(server: Fixture) {
    let client = connect(&server).await;
    let (begun, has_begun) = channel();
    tokio::select! {
        _ = never_ends(&client, begun) => unreachable!("it never ends"),
        outcome = soon("the body", has_begun) => outcome.unwrap(),
    }
    eventually("the release", || is_free(&server, "job")).await;
}

struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[locked(name = "job", watchdog = "3s", on_lost = cancel, client = client)]
async fn cancelled(client: Client, begun: Sender<()>, inside: Dropped) -> Result<u32, RunError> {
    let _inside = inside;
    begun.send(()).unwrap();
    std::future::pending().await
}

async fn a_body_is_dropped_when_its_lock_is_lost(server: Fixture) {
    let client = connect(&server).await;
    let (begun, has_begun) = channel();
    let dropped = Arc::new(AtomicBool::new(false));
    let running = tokio::spawn(cancelled(client, begun, Dropped(Arc::clone(&dropped))));
    soon("the body", has_begun).await.unwrap();
    assert!(!dropped.load(Ordering::SeqCst));
    run_command(&server, &["DEL", "job"]);
    let outcome = soon("the loss", running).await.unwrap();
    assert!(matches!(outcome, Err(RunError::Lost { reason: LostReason::Deleted, .. })));
    assert!(dropped.load(Ordering::SeqCst));
}

#[locked(name = "job", watchdog = "300ms", on_lost = finish, client = client)]
async fn finishes(client: Client, begun: Sender<()>, go_on: Receiver<()>) -> Result<u32, RunError> {
    begun.send(()).unwrap();
    go_on.await.unwrap();
    Ok(5)
}

async fn a_body_with_on_lost_finish_completes_after_a_loss(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    let ((begun, has_begun), (go, go_on)) = (channel(), channel());
    let running = tokio::spawn(finishes(client, begun, go_on));
    soon("the body", has_begun).await.unwrap();
    run_command(&server, &["DEL", "job"]);
    let guard = soon("the lock to be another's", other.lock("job").lock()).await.unwrap();
    assert!(!running.is_finished());
    go.send(()).unwrap();
    assert_eq!(soon("the body's end", running).await.unwrap(), Ok(5));
    assert!(guard.is_held());
}

#[locked(name = "job", client = client)]
async fn outer(client: &Client, server: &Fixture) -> Result<(u32, u32, u32), RunError> {
    let before = count(server, "job");
    let inside = inner(client, server).await?;
    Ok((before, inside, count(server, "job")))
}

#[locked(name = "job", client = client)]
async fn inner(client: &Client, server: &Fixture) -> Result<u32, RunError> {
    Ok(count(server, "job"))
}

async fn functions_that_call_each_other_re_enter(server: Fixture) {
    let client = connect(&server).await;
    let counts = soon("the re-entry", outer(&client, &server)).await;
    assert_eq!(counts, Ok((1, 2, 1)));
    assert!(is_free(&server, "job"));
}

#[locked(name = "job", client = client)]
async fn alone(client: &Client, inside: &AtomicU32) -> Result<u32, RunError> {
    let found = inside.fetch_add(1, Ordering::SeqCst);
    // A second holder, if any, gets its reply before this query does, and runs before this task goes on.
    assert!(!client.lock("unlocked").is_locked().await.unwrap());
    tokio::task::yield_now().await;
    inside.fetch_sub(1, Ordering::SeqCst);
    Ok(found)
}

#[locked(name = "batch", client = client)]
async fn all_of_them(client: &Client, inside: &AtomicU32) -> Result<u32, RunError> {
    let (one, two, three) = tokio::join!(alone(client, inside), alone(client, inside), alone(client, inside));
    Ok(one? + two? + three?)
}

async fn functions_side_by_side_exclude_each_other(server: Fixture) {
    let client = connect(&server).await;
    let inside = AtomicU32::new(0);
    let (one, other) = tokio::join!(alone(&client, &inside), alone(&client, &inside));
    assert_eq!((one, other), (Ok(0), Ok(0)));
    assert_eq!(soon("the branches", all_of_them(&client, &inside)).await, Ok(0));
}

/// An argument that notes, when it is dropped, whether the lock exists.
struct Noted<'a>(&'a Fixture, &'a std::sync::Mutex<Vec<u32>>);

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(u32::from(!is_free(self.0, "job")));
    }
}

#[locked(name = "job", client = client)]
async fn used_and_unused(
    client: &Client,
    used: Noted<'_>,
    _unused: Noted<'_>,
    (_first, [_second, _third]): (Noted<'_>, [Noted<'_>; 2]),
) -> Result<(), RunError> {
    drop(used);
    Ok(())
}

#[locked(name = "job", client = client)]
async fn fails_before_its_arguments_are_used(client: &Client, late: Noted<'_>) -> Result<(), RunError> {
    client.lock("busy").section().wait(std::time::Duration::ZERO).run(async |_guard| drop(late)).await
}

impl Noted<'_> {
    #[locked(name = "job", client = client)]
    async fn unused_self(self, client: &Client) -> Result<(), RunError> {
        Ok(())
    }
}

async fn arguments_are_dropped_under_the_lock(server: Fixture) {
    let (client, seen) = (connect(&server).await, std::sync::Mutex::new(Vec::new()));
    let noted = || Noted(&server, &seen);
    used_and_unused(&client, noted(), noted(), (noted(), [noted(), noted()])).await.unwrap();
    assert_eq!(std::mem::take(&mut *seen.lock().unwrap()), [1; 5]);
    noted().unused_self(&client).await.unwrap();
    assert_eq!(std::mem::take(&mut *seen.lock().unwrap()), [1]);
    let _busy = client.lock("busy").lock().await.unwrap();
    assert!(matches!(
        fails_before_its_arguments_are_used(&client, noted()).await,
        Err(RunError::Busy { .. })
    ));
    assert_eq!(std::mem::take(&mut *seen.lock().unwrap()), [1]);
}
