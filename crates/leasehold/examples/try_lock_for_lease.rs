//! Waits for a bounded time and holds for a fixed lease: Redisson's `lock.tryLock(100, 10_000, MILLISECONDS)`.
//!
//! `cargo run -p leasehold --all-features --example try_lock_for_lease`, or with the URL of a server after `--`.
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::time::Duration;

use leasehold::{Client, Error};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://".to_owned());
    let client = Client::connect(&url).await?;
    let lock = client.lock("report");
    // This holder never releases; the lease ends its hold.
    lock.clone().lease(Duration::from_millis(300)).lock().await?.detach();

    let lock = lock.lease(Duration::from_secs(10));
    let refused = lock.try_lock_for(Duration::from_millis(100)).await?;
    println!("held by another owner for all of 100 ms: {}", refused.is_none());
    if let Some(guard) = lock.try_lock_for(Duration::from_secs(5)).await? {
        println!("granted when that lease ended, for {:?}", guard.remaining());
        guard.release().await?;
    }
    Ok(())
}
