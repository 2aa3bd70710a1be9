//! Shares a price list among readers. A reader that finds it out of date upgrades to a writer, with no other writer in
//! between.
//!
//! `cargo run -p leasehold --all-features --example rw_lock`, or with the URL of a server after `--`.
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::sync::RwLock;

use leasehold::error::AcquireErrorKind;
use leasehold::{Client, Error};

/// The shared price list; a real program has a file or a table.
static PRICES: RwLock<(u64, u64)> = RwLock::new((0, 100));

fn prices() -> (u64, u64) {
    *PRICES.read().expect("no thread panics under this lock")
}

/// Reads the price of a day; the first reader of the day sets it.
async fn price(client: &Client, who: &str, today: u64) -> Result<u64, Error> {
    let lock = client.rw_lock("prices").prefer_writers();
    loop {
        let reader = lock.read().await?;
        let (day, price) = prices();
        if day == today {
            return Ok(price);
        }
        // The read hold continues, so no writer changed the price since it was read.
        match lock.upgrade(&reader).await {
            Ok(writer) => {
                *PRICES.write().expect("no thread panics under this lock") = (today, price + 10);
                println!("  {who} has set the price of day {today}");
                writer.release().await?;
            }
            // Another reader upgrades. Release the read hold and read again.
            Err(error) if error == AcquireErrorKind::Deadlock => {
                println!("  {who} lets another reader set it");
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
