//! Waits without a bound and holds without a bound: Redisson's `lock.lock()`.
//!
//! `cargo run -p leasehold --all-features --example lock`, or with the URL of a server after `--`.
#![allow(clippy::print_stdout, reason = "an example talks")]
#![expect(clippy::disallowed_methods, reason = "the work of the example takes real time")]

use std::time::Duration;

use leasehold::{Client, Error};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://".to_owned());
    let client = Client::connect(&url).await?;
    // The default lease of the watchdog is 30 s. A short one shows renewals within a second.
    let lock = client.lock("report").watchdog(Duration::from_millis(300));
    let guard = lock.lock().await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    println!("held after three leases: {}, for another {:?}", guard.is_held(), guard.remaining());
    guard.release().await?;
    Ok(())
}
