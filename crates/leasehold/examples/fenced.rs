//! A holder that was paused past its lease wakes up and writes; the token makes that write impossible.
//!
//! `cargo run -p leasehold --example fenced -- redis://127.0.0.1:6379`, or `-- memory://`.
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::time::Duration;

use leasehold::{Client, FencedWriteError};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://".to_owned());
    let client = Client::connect(&url).await?;
    let lock = client.fenced_lock("report");
    // Held for a moment only, as by a process that was paused for the rest of its lease.
    let paused = lock.clone().lease(Duration::from_millis(50)).lock().await?;
    println!("the first holder has token {}", paused.token());
    let reason = paused.lost().await;
    println!("its hold ended: {reason}");

    let next = lock.lock().await?;
    println!("the next holder has token {}", next.token());
    next.fenced().set("report:latest", "written by the next holder").await?;

    match paused.fenced().set("report:latest", "written too late").await {
        Err(FencedWriteError::Stale { newest, .. }) => println!("refused: token {newest} has written"),
        other => println!("{other:?}"),
    }
    next.release().await?;
    Ok(())
}
