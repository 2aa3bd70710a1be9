//! Waits for 100 ms and holds without a bound: Redisson's `lock.tryLock(100, MILLISECONDS)`.
//!
//! `cargo run -p leasehold --all-features --example try_lock_for`, or with the URL of a server after `--`.
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::time::Duration;

use leasehold::{Client, Error};

const WAIT: Duration = Duration::from_millis(100);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://".to_owned());
    let client = Client::connect(&url).await?;
    let lock = client.lock("report");
    let first = lock.lock().await?;
    // A busy lock is no error: Java returns `false`, Rust returns `None`.
    println!("still held by another owner after {WAIT:?}: {}", lock.try_lock_for(WAIT).await?.is_none());
    first.release().await?;
    if let Some(guard) = lock.try_lock_for(WAIT).await? {
        println!("free, so granted at once; the watchdog renews it");
        guard.release().await?;
    }
    Ok(())
}
