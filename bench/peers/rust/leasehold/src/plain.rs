//! The plain lock with guards, which is one string key like that of most other contenders.

use anyhow::Result;
use contender::{Kind, Peer, Request, Workload};
use leasehold::Client;

use crate::connect;

pub(crate) struct PlainLocks(Client);

impl Peer for PlainLocks {
    fn refusal(workload: &Workload) -> Option<String> {
        (workload.kind != Kind::Lock).then(|| "a plain lock has one kind".to_owned())
    }

    async fn connect(url: &str, workload: &Workload) -> Result<Self> {
        Ok(Self(connect(url, workload).await?))
    }

    async fn section<T: Send>(&self, request: &Request, body: impl Future<Output = T> + Send) -> Result<T> {
        let guard = self.0.plain_lock(&request.name).lock().await?;
        let value = body.await;
        guard.release().await?;
        Ok(value)
    }
}
