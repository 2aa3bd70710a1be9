//! Two licences for a whole company: what a crashed process held comes back with its lease, and a licence can be handed
//! on by its id.
//!
//! `cargo run -p leasehold --features embedded --example expirable_semaphore`, or with a server's URL behind `--`.
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::time::Duration;

use leasehold::{Client, Error, PermitId, Remaining};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://licences".to_owned());
    let (desk, backup) = (Client::connect(&url).await?, Client::connect(&url).await?);
    let licences = desk.expirable_semaphore("licences");
    licences.set_permits(2).await?;

    // One is taken for as long as this program works with it; the watchdog renews it.
    let working = licences.acquire().await?;
    println!("working with {}, {} left", working.ids()[0], licences.available().await?);

    // The other one goes to somebody else, who need not know this library: its id says everything.
    let kept = licences.clone().lease(Duration::from_secs(60)).acquire().await?.keep();
    let text = kept[0].to_string();
    println!("handed on {text}, {} left", licences.available().await?);
    let there = backup.expirable_semaphore("licences");
    let id: PermitId = text.parse().expect("it was written as an id");
    if let Some(Remaining::For(left)) = there.lease_of(id).await? {
        println!("there it lasts for another {left:?}");
    }
    assert!(there.release_ids(&[id]).await?);

    // A process that dies does not return anything: its lease does.
    let _ = there.clone().lease(Duration::from_millis(500)).acquire().await?.keep();
    println!("somebody has died with one, {} left", licences.available().await?);
    let again = licences.acquire().await?;
    println!("it came back: {}", again.ids()[0]);
    again.release().await?;
    working.release().await?;
    assert_eq!(licences.available().await?, 2);
    Ok(())
}
