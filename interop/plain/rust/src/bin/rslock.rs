//! The peer `rslock` with one server, and with its default pause of up to 200 ms between two attempts. Its release does
//! not report whether the lock was held.

use std::time::Duration;

use anyhow::Result;
use plain_peers::{Answer, Library, serve};
use rslock::{Lock, LockError, LockManager};

struct Rslock {
    waits: LockManager,
    once: LockManager,
}

impl Library for Rslock {
    type Lock = Lock;

    async fn connect(url: &str) -> Result<Self> {
        let waits = LockManager::new(vec![url]);
        let mut once = waits.clone();
        once.set_retry(1, Duration::from_millis(1));
        Ok(Self { waits, once })
    }

    async fn acquire(&self, name: &str, lease: Duration, waits: bool) -> Result<Option<Lock>> {
        if waits {
            return Ok(Some(self.waits.acquire(name, lease).await?.lock));
        }
        match self.once.lock(name, lease).await {
            Ok(lock) => Ok(Some(lock)),
            Err(LockError::Unavailable) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn release(&self, lock: Lock) -> Result<&'static str> {
        lock.release().await;
        Ok("silent")
    }

    async fn extend(&self, lock: &Lock, lease: Duration) -> Result<()> {
        match self.once.extend(lock, lease).await {
            Err(LockError::Unavailable) => Err(Answer::NotOwned.into()),
            extended => Ok(extended.map(drop)?),
        }
    }
}

fn main() -> Result<()> {
    serve::<Rslock>()
}
