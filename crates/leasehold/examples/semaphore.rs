//! A table with places for three: at most three eat at once, over all processes, and whoever came first sits down first.
//!
//! `cargo run -p leasehold --example semaphore -- redis://127.0.0.1:6379` in several terminals; without a URL in one.
#![allow(clippy::print_stdout, reason = "an example talks")]
#![expect(clippy::disallowed_methods, reason = "the meals of the example take real time")]

use std::time::Duration;

use leasehold::{Client, Error, Semaphore};

/// How long a meal takes.
const MEAL: Duration = Duration::from_millis(300);

/// Waits for as many places as the party needs, eats and leaves.
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
        eat(&places, "somebody alone", 1),
        eat(&places, "a couple", 2),
    )?;
    println!("{} places are free", places.available().await?);
    Ok(())
}
