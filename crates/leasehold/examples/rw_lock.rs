//! A price list that is read all the time and written rarely: readers share it, and the one that finds it out of date
//! brings it up to date without letting anybody write in between.
//!
//! `cargo run -p leasehold --features embedded --example rw_lock`, or with a server's URL behind `--`.
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::sync::RwLock;

use leasehold::{AcquireError, AcquireErrorKind, Client, Error};

/// What all processes share: in a real program a file on a share, or a table.
static PRICES: RwLock<(u64, u64)> = RwLock::new((0, 100));

fn prices() -> (u64, u64) {
    *PRICES.read().expect("nobody panics under this lock")
}

/// Reads the price of a day; the first one of the day sets it.
async fn price(client: &Client, who: &str, today: u64) -> Result<u64, Error> {
    let lock = client.rw_lock("prices").prefer_writers();
    loop {
        let reader = lock.read().await?;
        let (day, price) = prices();
        if day == today {
            return Ok(price);
        }
        // Reading goes on, so nobody can have changed the price since it was read.
        match lock.upgrade(&reader).await {
            Ok(writer) => {
                *PRICES.write().expect("nobody panics under this lock") = (today, price + 10);
                println!("  {who} has set the price of day {today}");
                writer.release().await?;
            }
            // Somebody else who reads is about to write: out of its way, and then look again.
            Err(AcquireError { kind: AcquireErrorKind::Deadlock, .. }) => {
                println!("  {who} lets somebody else set it");
            }
            Err(error) => return Err(error.into()),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://prices".to_owned());
    let (one, other) = (Client::connect(&url).await?, Client::connect(&url).await?);
    for today in 1..=3 {
        println!("day {today}:");
        let prices = tokio::try_join!(
            price(&one, "one", today),
            price(&other, "the other", today),
            price(&one, "a third", today),
        )?;
        println!("  it is {} for all of them", prices.0);
        assert_eq!(prices, (100 + 10 * today, 100 + 10 * today, 100 + 10 * today), "set once a day");
    }
    assert!(!one.rw_lock("prices").write_lock().is_locked().await?);
    Ok(())
}
