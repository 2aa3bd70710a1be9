//! Waits without a bound and holds for a fixed lease: Redisson's `lock.lock(10, SECONDS)`.
//!
//! `cargo run -p leasehold --all-features --example lock_lease`, or with the URL of a server after `--`.
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::time::Duration;

use leasehold::{Client, Error};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://".to_owned());
    let client = Client::connect(&url).await?;
    // 300 ms instead of ten seconds show the end of the lease soon. Nothing renews a fixed lease.
    let lock = client.lock("report").lease(Duration::from_millis(300));
    let guard = lock.lock().await?;
    println!("held for {:?}", guard.remaining());
    println!("lost: {}", guard.lost().await);
    // The next holder needs no release.
    lock.lock().await?.release().await?;
    Ok(())
}
