//! The five contenders of this library. The second argument chooses one: `async`, `blocking`, `run`, `locked` or `plain`.

mod guards;
mod locked;
mod plain;
mod run;
mod threads;

use anyhow::{Result, bail};
use contender::{Kind, Workload, serve};
use leasehold::Client;

fn main() -> Result<()> {
    match std::env::args().nth(2).as_deref() {
        Some("async") => serve::<guards::Guards>(),
        Some("blocking") => serve::<threads::Threads>(),
        Some("run") => serve::<run::Run>(),
        Some("locked") => serve::<locked::Locked>(),
        Some("plain") => serve::<plain::PlainLocks>(),
        other => bail!("the second argument is async, blocking, run, locked or plain, and not {other:?}"),
    }
}

/// Connects with the lease of the workload, which the watchdog renews.
async fn connect(url: &str, workload: &Workload) -> Result<Client> {
    Ok(Client::builder().watchdog(workload.lease()).connect(url).await?)
}

/// Sets the permits of the workload's semaphores.
async fn set_permits(client: &Client, workload: &Workload) -> Result<()> {
    if workload.kind == Kind::Semaphore {
        for name in workload.lock_names() {
            client.semaphore(name).try_set_permits(workload.permits).await?;
        }
    }
    Ok(())
}
