//! Shares two licenses among all processes. A crashed process returns its license with the lease, and another process
//! can return a license by its id.
//!
//! `cargo run -p leasehold --all-features --example expirable_semaphore`, or with the URL of a server after `--`.
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::time::Duration;

use leasehold::lock::Remaining;
use leasehold::semaphore::PermitId;
use leasehold::{Client, Error};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://licenses".to_owned());
    let (desk, backup) = (Client::connect(&url).await?, Client::connect(&url).await?);
    let licenses = desk.expirable_semaphore("licenses");
    licenses.set_permits(2).await?;

    // The watchdog renews this license while the program works with it.
    let working = licenses.acquire().await?;
    println!("working with {}, {} left", working.ids()[0], licenses.available().await?);

    // The id is enough for another process, in Java too, to return the other license.
    let kept = licenses.clone().lease(Duration::from_secs(60)).acquire().await?.detach();
    let text = kept[0].to_string();
    println!("handed on {text}, {} left", licenses.available().await?);
    let there = backup.expirable_semaphore("licenses");
    let id: PermitId = text.parse().expect("the text is an id");
    if let Some(Remaining::For(left)) = there.lease_of(id).await? {
        println!("the other process sees {left:?} left of its lease");
    }
    assert!(there.release_ids(&[id]).await?);

    // A process that dies returns nothing; the lease frees its license.
    let _ = there.clone().lease(Duration::from_millis(500)).acquire().await?.detach();
    println!("a process has died with a license, {} left", licenses.available().await?);
    let again = licenses.acquire().await?;
    println!("it came back: {}", again.ids()[0]);
    again.release().await?;
    working.release().await?;
    assert_eq!(licenses.available().await?, 2);
    Ok(())
}
