//! Wait for a while, hold as long as it takes: Redisson's `lock.tryLock(100, MILLISECONDS)`.
//!
//! `cargo run -p leasehold --example try_lock_for -- redis://127.0.0.1:6379`, or `-- memory://`.
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
    // Not getting it is no error: Java says `false`, Rust says `None`.
    println!("after {WAIT:?} still somebody else's: {}", lock.try_lock_for(WAIT).await?.is_none());
    first.release().await?;
    if let Some(guard) = lock.try_lock_for(WAIT).await? {
        println!("free, so ours at once; the watchdog renews it");
        guard.release().await?;
    }
    Ok(())
}
