//! Wait for a while, hold for a while: Redisson's `lock.tryLock(100, 10_000, MILLISECONDS)`.
//!
//! `cargo run -p leasehold --example try_lock_for_lease -- redis://127.0.0.1:6379`, or `-- memory://`.
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::time::Duration;

use leasehold::{Client, Error};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://".to_owned());
    let client = Client::connect(&url).await?;
    let lock = client.lock("report");
    // Somebody who never releases: the lock is left to its lease.
    lock.clone().lease(Duration::from_millis(300)).lock().await?.keep();

    let lock = lock.lease(Duration::from_secs(10));
    let in_vain = lock.try_lock_for(Duration::from_millis(100)).await?;
    println!("somebody else's for 100 ms: {}", in_vain.is_none());
    if let Some(guard) = lock.try_lock_for(Duration::from_secs(5)).await? {
        println!("ours when that lease was over, for {:?} and no longer", guard.remaining());
        guard.release().await?;
    }
    Ok(())
}
