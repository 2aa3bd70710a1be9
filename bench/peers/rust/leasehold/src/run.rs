//! The asynchronous API with bodies: `lock.run(async |guard| ..).await`.

use anyhow::Result;
use contender::{Kind, Peer, Request, Side, Workload};
use leasehold::Client;

use crate::connect;

pub(crate) struct Run(Client);

impl Peer for Run {
    fn refusal(_workload: &Workload) -> Option<String> {
        None
    }

    async fn connect(url: &str, workload: &Workload) -> Result<Self> {
        Ok(Self(connect(url, workload).await?))
    }

    async fn section<T: Send>(&self, request: &Request, body: impl Future<Output = T> + Send) -> Result<T> {
        let name = &request.name;
        let value = match (request.kind, request.side) {
            (Kind::Lock, _) => self.0.lock(name).run(async move |_guard| body.await).await?,
            (Kind::Fair, _) => self.0.fair_lock(name).run(async move |_guard| body.await).await?,
            (Kind::Rw, Side::Read) => {
                self.0.rw_lock(name).read_lock().run(async move |_guard| body.await).await?
            }
            (Kind::Rw, Side::Write) => {
                self.0.rw_lock(name).write_lock().run(async move |_guard| body.await).await?
            }
            // The section of the expirable semaphore, which is the semaphore that has sections.
            (Kind::Semaphore, _) => {
                let semaphore = self.0.expirable_semaphore(name);
                semaphore.section(request.permits).run(async move |_guard| body.await).await?
            }
        };
        Ok(value)
    }
}
