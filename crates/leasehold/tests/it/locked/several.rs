//! Bodies under several locks, and under a lock of several servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use leasehold::error::SubjectKind;
use leasehold::{Client, Redlock, RunError, locked};

use crate::support::{Fixture, connect, eventually, is_free, on_both, pttl, run_command, soon};

on_both! {
    async {
        a_body_runs_under_all_names_or_not_at_all,
        the_first_loss_of_several_cancels_the_body,
        a_body_runs_under_a_redlock,
        a_margin_ends_the_body_before_the_lease,
    }
}

#[locked(name = ["account:{from}", "account:{to}"], wait = "0s", client = client)]
async fn transfer<T>(client: &Client, from: u32, to: u32, look: impl FnOnce() -> T) -> Result<T, RunError> {
    Ok(look())
}

async fn a_body_runs_under_all_names_or_not_at_all(server: Fixture) {
    let client = connect(&server).await;
    let free = || [1, 2].map(|account| is_free(&server, &format!("account:{account}")));
    assert_eq!(transfer(&client, 1, 2, free).await, Ok([false, false]));
    assert_eq!((transfer(&client, 1, 1, free).await, free()), (Ok([false, true]), [true, true]));
    let held = client.lock("account:2").lock().await.unwrap();
    match transfer(&client, 2, 1, free).await {
        Err(RunError::Busy { subject, .. }) => {
            assert_eq!((subject.kind, &*subject.name), (SubjectKind::MultiLock, "account:1, account:2"));
        }
        other => panic!("{other:?}"),
    }
    eventually("the other account", || is_free(&server, "account:1")).await;
    held.release().await.unwrap();
}

#[locked(name = ["a".to_owned(), made()], kind = fair, watchdog = "600ms", client = client)]
async fn lost(client: &Client, server: &Fixture) -> Result<(), RunError> {
    run_command(server, &["DEL", "b"]);
    std::future::pending().await
}

fn made() -> String {
    "b".to_owned()
}

async fn the_first_loss_of_several_cancels_the_body(server: Fixture) {
    let client = connect(&server).await;
    let error = soon("the loss", lost(&client, &server)).await.unwrap_err();
    assert!(error.is_lost(), "{error}");
    eventually("the other member", || is_free(&server, "a")).await;
}

struct Shop {
    redlock: Arc<Redlock>,
}

impl Shop {
    #[locked(name = "order:{order}", wait = "0s", lease = "20s", redlock = self.redlock)]
    async fn pay<T>(&self, order: u32, look: impl FnOnce() -> T) -> Result<T, RunError> {
        Ok(look())
    }

    #[locked(name = "order:1", wait = "0s", kind = plain, redlock = Arc::clone(&self.redlock))]
    async fn plain<T>(&self, look: impl FnOnce() -> T) -> Result<T, RunError> {
        Ok(look())
    }
}

async fn a_body_runs_under_a_redlock(server: Fixture) {
    let client = connect(&server).await;
    let redlock = Redlock::builder().nodes_persist_every_write().over([client]);
    let shop = Shop { redlock: Arc::new(redlock) };
    let left = shop.pay(1, || pttl(&server, "order:1")).await.unwrap();
    assert!((1..=20_000).contains(&left), "{left} ms");
    assert_eq!(shop.plain(|| server.cli(&["TYPE", "order:1"])).await.as_deref(), Ok("string"));
    let held = shop.redlock.lock("order:1").lock().await.unwrap();
    let busy = shop.pay(1, || ()).await;
    assert!(
        matches!(&busy, Err(RunError::Busy { subject, .. }) if subject.kind == SubjectKind::Redlock),
        "{busy:?}"
    );
    held.release().await.unwrap();
}

/// Notes the rest of the lease when the body is dropped.
struct AtEnd<'a>(&'a Fixture, Arc<AtomicI64>);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.1.store(pttl(self.0, "job"), Ordering::Relaxed);
    }
}

#[locked(name = "job", lease = "3s", margin = "2900ms", client = client)]
async fn with_margin(client: &Client, _end: AtEnd<'_>) -> Result<(), RunError> {
    std::future::pending().await
}

async fn a_margin_ends_the_body_before_the_lease(server: Fixture) {
    let client = connect(&server).await;
    let left = Arc::new(AtomicI64::new(0));
    let body = with_margin(&client, AtEnd(&server, Arc::clone(&left)));
    let error = soon("the loss", body).await.unwrap_err();
    assert!(error.is_lost(), "{error}");
    let left = left.load(Ordering::Relaxed);
    assert!((1..3000).contains(&left), "the lease had {left} ms left");
}
