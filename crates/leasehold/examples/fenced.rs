//! Refuses the late write of a holder that slept past its lease, by its fencing token.
//!
//! `cargo run -p leasehold --all-features --example fenced`, or with the URL of a server after `--`.
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::time::Duration;

use leasehold::{Client, FencedWriteError};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://".to_owned());
    let client = Client::connect(&url).await?;
    let lock = client.fenced_lock("report");
    // A lease of 50 ms stands for a process that sleeps past a longer one.
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
