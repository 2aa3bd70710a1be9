//! Wait as long as it takes, hold as long as it takes: Redisson's `lock.lock()`.
//!
//! `cargo run -p leasehold --example lock -- redis://127.0.0.1:6379`, or `-- memory://`.
#![allow(clippy::print_stdout, reason = "an example talks")]
#![expect(clippy::disallowed_methods, reason = "the work of the example takes real time")]

use std::time::Duration;

use leasehold::{Client, Error};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://".to_owned());
    let client = Client::connect(&url).await?;
    // The watchdog's lease is 30 s unless said otherwise; a short one lets us see it work.
    let lock = client.lock("report").watchdog(Duration::from_millis(300));
    let guard = lock.lock().await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    println!("held for three leases and still: {}, for another {:?}", guard.is_held(), guard.remaining());
    guard.release().await?;
    Ok(())
}
