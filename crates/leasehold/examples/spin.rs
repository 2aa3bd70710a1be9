//! Runs many short bodies under a lock that sends no messages.
//!
//! `cargo run -p leasehold --all-features --example spin`, or with the URL of a server after `--`.
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::time::Duration;

use leasehold::{Client, Error};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://".to_owned());
    let client = Client::connect(&url).await?;
    let lock = client.spin_lock("tick").backoff(Duration::from_millis(1), Duration::from_millis(20));
    let mut ticks = 0;
    for _ in 0..100 {
        lock.run(async |_| ticks += 1).await?;
    }
    println!("{ticks} ticks");
    Ok(())
}
