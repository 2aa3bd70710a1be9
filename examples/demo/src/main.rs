//! Two clients race to charge the same order, and it is charged once.
//!
//! `cargo demo`, against an in-process server. With `--features leasehold/redis`, the URL of a server can follow after
//! `--`.
#![allow(clippy::print_stdout, reason = "an example talks")]
#![expect(clippy::disallowed_methods, reason = "the work of the example takes real time")]

use std::sync::Mutex;
use std::time::Duration;

use leasehold::{Client, Error};

/// The time to charge an order, long enough to see the second client wait.
const CHARGING: Duration = Duration::from_secs(2);

/// The charged orders; a real program has a table in a database.
#[derive(Default)]
struct Ledger(Mutex<Vec<u64>>);

impl Ledger {
    fn has(&self, order: u64) -> bool {
        self.0.lock().expect("no thread panics under this lock").contains(&order)
    }

    fn add(&self, order: u64) {
        self.0.lock().expect("no thread panics under this lock").push(order);
    }
}

/// Charges an order once.
async fn charge(who: &str, client: &Client, order: u64, ledger: &Ledger) -> Result<(), Error> {
    let lock = client.lock(format!("order:{order}"));
    let guard = match lock.try_lock().await? {
        Some(guard) => guard,
        None => {
            println!("  {who} finds the lock taken, and waits");
            lock.lock().await?
        }
    };
    println!("  {who} has the lock, as {}", guard.wire_owner());
    if ledger.has(order) {
        println!("  {who} finds it charged");
    } else {
        tokio::select! {
            () = tokio::time::sleep(CHARGING) => {
                ledger.add(order);
                println!("  {who} has charged it");
            }
            reason = guard.lost() => println!("  {who} stopped: {reason}"),
        }
    }
    guard.release().await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://demo".to_owned());
    let (one, other) = (Client::connect(&url).await?, Client::connect(&url).await?);
    let ledger = Ledger::default();
    println!("two clients want to charge order 42 at the same time:\n");
    tokio::try_join!(charge("one", &one, 42, &ledger), charge("the other", &other, 42, &ledger))?;
    assert_eq!(*ledger.0.lock().expect("no thread panics under this lock"), [42], "charged once");
    assert!(!one.lock("order:42").is_locked().await?);
    println!("\nthe order was charged once, and its lock is free again");
    Ok(())
}
