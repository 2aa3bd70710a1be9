//! The peer `rlock`, with its default interval of polling, 100 ms, and without renewals. Its release does not
//! report whether the lock was held.

use std::time::Duration;

use anyhow::Result;
use plain_peers::{Answer, Library, serve};
use rlock::async_lock::{RLock, RLockGuard};
use rlock::{AcquireOptions, RenewalMode};

struct Rlock(RLock);

impl Library for Rlock {
    type Lock = RLockGuard;
    const EXTENDS: bool = false;

    async fn connect(url: &str) -> Result<Self> {
        Ok(Self(RLock::new(url).await?))
    }

    async fn acquire(&self, name: &str, lease: Duration, waits: bool) -> Result<Option<RLockGuard>> {
        let options = AcquireOptions::builder().ttl(lease).renewal_mode(RenewalMode::Disabled).build()?;
        if waits {
            return Ok(Some(self.0.acquire_mutex_with_options(name, options).await?));
        }
        Ok(self.0.try_acquire_mutex_with_options(name, options).await?)
    }

    async fn release(&self, mut lock: RLockGuard) -> Result<&'static str> {
        lock.release().await?;
        Ok("silent")
    }

    async fn extend(&self, _lock: &RLockGuard, _lease: Duration) -> Result<()> {
        Err(Answer::Unsupported.into())
    }
}

fn main() -> Result<()> {
    serve::<Rlock>()
}
