//! The primitives whose waiters the scenarios measure.

use std::time::Duration;

use leasehold::{Client, Error};

/// The name that all waiters want.
const NAME: &str = "hot";

/// A primitive with one place, for which others wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Queue {
    Lock,
    /// A lock for which each waiter asks the server, as for a fair lock.
    Asked,
    Fair,
    Fifo,
    Semaphore,
    Expirable,
}

impl Queue {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Asked => "lock without hand-off",
            Self::Fair => "fair lock",
            Self::Fifo => "FIFO semaphore",
            Self::Semaphore => "semaphore",
            Self::Expirable => "expirable semaphore",
        }
    }

    /// Gives a semaphore its permit.
    pub(crate) async fn prepare(self, client: &Client) {
        let is_new = match self {
            Self::Lock | Self::Asked | Self::Fair => true,
            Self::Fifo | Self::Semaphore => client.semaphore(NAME).try_set_permits(1).await.unwrap(),
            Self::Expirable => client.expirable_semaphore(NAME).try_set_permits(1).await.unwrap(),
        };
        assert!(is_new);
    }

    /// Acquires the place, stays in it for some time, and releases it.
    pub(crate) async fn section(self, client: &Client, stay: impl Future<Output = ()>) -> Result<(), Error> {
        match self {
            Self::Lock => {
                let guard = client.lock(NAME).lock().await?;
                stay.await;
                guard.release().await?;
            }
            Self::Asked => {
                let guard = client.lock(NAME).hand_off(Duration::ZERO).lock().await?;
                stay.await;
                guard.release().await?;
            }
            Self::Fair => {
                let guard = client.fair_lock(NAME).lock().await?;
                stay.await;
                guard.release().await?;
            }
            Self::Fifo => {
                let guard = client.semaphore(NAME).fifo().acquire().await?;
                stay.await;
                guard.release().await?;
            }
            Self::Semaphore => {
                let guard = client.semaphore(NAME).acquire().await?;
                stay.await;
                guard.release().await?;
            }
            Self::Expirable => {
                let permit = client.expirable_semaphore(NAME).acquire().await?;
                stay.await;
                permit.release().await?;
            }
        }
        Ok(())
    }
}

pub(crate) async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}
