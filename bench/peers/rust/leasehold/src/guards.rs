//! The asynchronous API with guards: `lock.lock().await` and `guard.release().await`.

use anyhow::Result;
use contender::{Kind, Peer, Request, Side, Workload};
use leasehold::Client;

use crate::{connect, set_permits};

pub(crate) struct Guards(Client);

impl Peer for Guards {
    fn refusal(_workload: &Workload) -> Option<String> {
        None
    }

    async fn connect(url: &str, workload: &Workload) -> Result<Self> {
        let client = connect(url, workload).await?;
        set_permits(&client, workload).await?;
        Ok(Self(client))
    }

    async fn section<T: Send>(&self, request: &Request, body: impl Future<Output = T> + Send) -> Result<T> {
        let name = &request.name;
        let guard = match (request.kind, request.side) {
            (Kind::Lock, _) => self.0.lock(name).lock().await?,
            (Kind::Fair, _) => self.0.fair_lock(name).lock().await?,
            (Kind::Rw, Side::Read) => self.0.rw_lock(name).read().await?,
            (Kind::Rw, Side::Write) => self.0.rw_lock(name).write().await?,
            (Kind::Semaphore, _) => self.0.semaphore(name).acquire().await?,
        };
        let value = body.await;
        guard.release().await?;
        Ok(value)
    }
}
