//! Seats at most three guests at a table, over all processes, in the order of arrival.
//!
//! `cargo run -p leasehold --all-features --example semaphore`, or with the URL of a server after `--`, in several
//! terminals.
#![allow(clippy::print_stdout, reason = "an example talks")]
#![expect(clippy::disallowed_methods, reason = "the meals of the example take real time")]

use std::time::Duration;

use leasehold::{Client, Error, Semaphore};

/// The duration of a meal.
const MEAL: Duration = Duration::from_millis(300);

/// Waits for the places of a party, eats and leaves.
async fn eat(places: &Semaphore, party: &str, guests: u32) -> Result<(), Error> {
    let seats = places.acquire_many(guests).await?;
    println!("{party} ({guests}) sit down, {} places are left", places.available().await?);
    tokio::time::sleep(MEAL).await;
    println!("{party} leave");
    seats.release().await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://".to_owned());
    let client = Client::connect(&url).await?;
    let places = client.semaphore("table").fifo();
    if places.try_set_permits(3).await? {
        println!("the table has three places");
    }
    tokio::try_join!(
        eat(&places, "the Smiths", 2),
        eat(&places, "a big family", 3),
        eat(&places, "a single guest", 1),
        eat(&places, "a couple", 2),
    )?;
    println!("{} places are free", places.available().await?);
    Ok(())
}
