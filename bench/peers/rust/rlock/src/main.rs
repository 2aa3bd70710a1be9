//! The contender `rlock`, with its asynchronous API and its default interval of polling, 100 ms.

use anyhow::Result;
use contender::{Kind, Peer, Request, Side, Workload, serve};
use rlock::async_lock::RLock;
use rlock::{AcquireOptions, RenewalMode};

struct Rlock(RLock);

impl Peer for Rlock {
    fn refusal(workload: &Workload) -> Option<String> {
        match workload.kind {
            Kind::Lock | Kind::Rw => None,
            Kind::Fair => Some("it has no fair lock".to_owned()),
            Kind::Semaphore => Some("it has no semaphore".to_owned()),
        }
    }

    async fn connect(url: &str, _workload: &Workload) -> Result<Self> {
        Ok(Self(RLock::new(url).await?))
    }

    async fn section<T: Send>(&self, request: &Request, body: impl Future<Output = T> + Send) -> Result<T> {
        let options = AcquireOptions::builder().ttl(request.lease).renewal_mode(RenewalMode::Auto).build()?;
        let name = &request.name;
        if request.kind == Kind::Lock {
            let mut guard = self.0.acquire_mutex_with_options(name, options).await?;
            let value = body.await;
            guard.release().await?;
            Ok(value)
        } else if request.side == Side::Read {
            let mut guard = self.0.acquire_read_with_options(name, options).await?;
            let value = body.await;
            guard.release().await?;
            Ok(value)
        } else {
            let mut guard = self.0.acquire_write_with_options(name, options).await?;
            let value = body.await;
            guard.release().await?;
            Ok(value)
        }
    }
}

fn main() -> Result<()> {
    serve::<Rlock>()
}
