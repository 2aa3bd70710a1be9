//! Charges one order from three threads, one at a time, without async.
//!
//! `cargo run -p leasehold --all-features --example blocking`, or with the URL of a server after `--`.
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::thread;

use leasehold::blocking::Client;
use leasehold::{Error, locked};

fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://".to_owned());
    let client = Client::connect(&url)?;
    thread::scope(|scope| {
        for till in 1..=3 {
            let client = client.clone();
            scope.spawn(move || match charge(&client, till) {
                Ok(()) => println!("till {till}: done"),
                Err(error) => println!("till {till}: {error}"),
            });
        }
    });
    println!("{:?}", client.close());
    Ok(())
}

fn charge(client: &Client, till: u32) -> Result<(), Error> {
    let lock = client.lock("order:42");
    let receipt = lock.run(|guard| {
        println!("till {till}: charging as {}", guard.wire_owner());
        note(client, till)
    })?;
    println!("till {till}: {}", receipt?);
    Ok(())
}

/// Takes the same lock again. The thread owns it, so the acquire re-enters.
#[locked(name = "order:42", client = client)]
fn note(client: &Client, till: u32) -> Result<String, Error> {
    Ok(format!("receipt of till {till}"))
}
