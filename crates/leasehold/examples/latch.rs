//! Imports three parts in three clients, and writes the report after the last one.
//!
//! `cargo run -p leasehold --all-features --example latch`, or with the URL of a server after `--`.
#![allow(clippy::print_stdout, reason = "an example talks")]
#![expect(clippy::disallowed_methods, reason = "the work of the example takes real time")]

use std::time::Duration;

use leasehold::{Client, Error};

/// The number of parts.
const PARTS: u32 = 3;

/// Reads a part, with a client of its own.
async fn read(url: &str, part: u32) -> Result<(), Error> {
    let client = Client::connect(url).await?;
    tokio::time::sleep(Duration::from_millis(200) * part).await;
    let left = client.count_down_latch("import").count_down().await?;
    println!("part {part} is read, {left} to go");
    Ok(())
}

/// Writes the report after all parts are read.
async fn report(client: &Client) -> Result<(), Error> {
    let import = client.count_down_latch("import");
    while !import.wait_for(Duration::from_millis(250)).await? {
        println!("still waiting for {}", import.count().await?);
    }
    println!("the report is written");
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://import".to_owned());
    let client = Client::connect(&url).await?;
    client.count_down_latch("import").try_set_count(PARTS).await?;
    tokio::try_join!(report(&client), read(&url, 1), read(&url, 2), read(&url, 3))?;
    Ok(())
}
