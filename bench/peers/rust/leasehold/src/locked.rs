//! Functions with the attribute `#[locked]`.

use anyhow::Result;
use contender::{Kind, Peer, Request, Side, Workload};
use leasehold::{Client, RunError, locked};

use crate::connect;

pub(crate) struct Locked(Client);

impl Peer for Locked {
    fn refusal(_workload: &Workload) -> Option<String> {
        None
    }

    async fn connect(url: &str, workload: &Workload) -> Result<Self> {
        Ok(Self(connect(url, workload).await?))
    }

    async fn section<T: Send>(&self, request: &Request, body: impl Future<Output = T> + Send) -> Result<T> {
        let (client, name) = (&self.0, request.name.as_str());
        let value = match (request.kind, request.side) {
            (Kind::Lock, _) => plain(client, name, body).await?,
            (Kind::Fair, _) => fair(client, name, body).await?,
            (Kind::Rw, Side::Read) => read(client, name, body).await?,
            (Kind::Rw, Side::Write) => write(client, name, body).await?,
            (Kind::Semaphore, _) => permit(client, name, request.permits, body).await?,
        };
        Ok(value)
    }
}

#[locked(name = "{name}", client = client)]
async fn plain<T>(client: &Client, name: &str, body: impl Future<Output = T>) -> Result<T, RunError> {
    Ok(body.await)
}

#[locked(name = "{name}", kind = fair, client = client)]
async fn fair<T>(client: &Client, name: &str, body: impl Future<Output = T>) -> Result<T, RunError> {
    Ok(body.await)
}

#[locked(name = "{name}", kind = read, client = client)]
async fn read<T>(client: &Client, name: &str, body: impl Future<Output = T>) -> Result<T, RunError> {
    Ok(body.await)
}

#[locked(name = "{name}", kind = write, client = client)]
async fn write<T>(client: &Client, name: &str, body: impl Future<Output = T>) -> Result<T, RunError> {
    Ok(body.await)
}

#[locked(name = "{name}", kind = semaphore(permits), client = client)]
async fn permit<T>(
    client: &Client,
    name: &str,
    permits: u32,
    body: impl Future<Output = T>,
) -> Result<T, RunError> {
    Ok(body.await)
}
