//! Charges one order, in one process at a time.
//!
//! Run `cargo run -p leasehold --all-features --example order -- redis://127.0.0.1:6379` in two terminals: the second
//! process waits. `-- memory://` needs no server, and excludes no other process.
#![allow(clippy::print_stdout, reason = "an example talks")]
#![expect(clippy::disallowed_methods, reason = "the work of the example takes real time")]

use std::time::Duration;

use leasehold::{Client, Error};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let client = Client::connect(&url).await?;
    let guard = client.lock("order:42").lock().await?;
    println!("charging order 42 as {}, held for another {:?}", guard.wire_owner(), guard.remaining());
    tokio::select! {
        () = tokio::time::sleep(Duration::from_secs(3)) => println!("charged"),
        reason = guard.lost() => println!("stopped: {reason}"),
    }
    println!("{:?}", guard.release().await?);
    Ok(())
}
