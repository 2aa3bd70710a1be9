//! The blocking API: a thread for each task, `lock.lock()` and `guard.release()`.

use std::thread;

use anyhow::{Result, anyhow};
use contender::{Kind, Peer, Request, Side, What, Workload};
use leasehold::blocking::Client;

use crate::set_permits;

/// The most threads of a workload.
const THREADS: usize = 1_000;

pub(crate) struct Threads(Client);

impl Peer for Threads {
    const BLOCKS: bool = true;

    fn refusal(workload: &Workload) -> Option<String> {
        let locks = if workload.what == What::Idle { workload.names } else { 0 };
        let is_crowded = workload.tasks.max(locks) > THREADS;
        is_crowded.then(|| format!("a task is a thread, and {THREADS} are enough"))
    }

    async fn connect(url: &str, workload: &Workload) -> Result<Self> {
        // A program of threads has no tokio, so its client is made outside of it.
        let (url, lease) = (url.to_owned(), workload.lease());
        let connecting = thread::spawn(move || Client::builder().watchdog(lease).connect(&url));
        let client = connecting.join().map_err(|_| anyhow!("connecting has panicked"))??;
        set_permits(client.as_async(), workload).await?;
        Ok(Self(client))
    }

    async fn section<T: Send>(&self, request: &Request, body: impl Future<Output = T> + Send) -> Result<T> {
        let name = &request.name;
        let guard = match (request.kind, request.side) {
            (Kind::Lock, _) => self.0.lock(name).lock()?,
            (Kind::Fair, _) => self.0.fair_lock(name).lock()?,
            (Kind::Rw, Side::Read) => self.0.rw_lock(name).read()?,
            (Kind::Rw, Side::Write) => self.0.rw_lock(name).write()?,
            (Kind::Semaphore, _) => self.0.semaphore(name).acquire()?,
        };
        let value = body.await;
        guard.release()?;
        Ok(value)
    }
}
