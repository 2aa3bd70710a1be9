//! The contender `rslock`, with its default pause of up to 200 ms between two attempts.

use anyhow::Result;
use contender::{Kind, Peer, Request, What, Workload, serve};
use rslock::LockManager;

struct Rslock(LockManager);

impl Peer for Rslock {
    fn refusal(workload: &Workload) -> Option<String> {
        if workload.kind != Kind::Lock {
            return Some("it has the plain lock alone".to_owned());
        }
        (workload.what == What::Held).then(|| "it does not renew by itself".to_owned())
    }

    async fn connect(url: &str, _workload: &Workload) -> Result<Self> {
        Ok(Self(LockManager::new(vec![url])))
    }

    async fn section<T: Send>(&self, request: &Request, body: impl Future<Output = T> + Send) -> Result<T> {
        let guard = self.0.acquire(request.name.as_str(), request.lease).await?;
        let value = body.await;
        guard.release().await;
        Ok(value)
    }
}

fn main() -> Result<()> {
    serve::<Rslock>()
}
