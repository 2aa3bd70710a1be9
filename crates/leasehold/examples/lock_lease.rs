//! Wait as long as it takes, hold for ten seconds at most: Redisson's `lock.lock(10, SECONDS)`.
//!
//! `cargo run -p leasehold --example lock_lease -- redis://127.0.0.1:6379`, or `-- memory://`.
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::time::Duration;

use leasehold::{Client, Error};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://".to_owned());
    let client = Client::connect(&url).await?;
    // Less than ten seconds here, so that its end is soon seen. A lease is not renewed by anybody.
    let lock = client.lock("report").lease(Duration::from_millis(300));
    let guard = lock.lock().await?;
    println!("held for {:?}", guard.remaining());
    println!("and over: {}", guard.lost().await);
    // The next one does not have to be told.
    lock.lock().await?.release().await?;
    Ok(())
}
