//! Three incidents: a slow holder, two processes that wait for each other, and a client that died with a long lease.
//!
//! `README.md` has the steps. Each process runs until it is killed.

use std::env;
use std::future::pending;
use std::time::Duration;

use anyhow::{Result, bail};
use leasehold::Client;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let url = env::var("LEASEHOLD_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());
    let client = |name: &str| Client::builder().client_name(name).label("version", "1.4.2").connect(&url);
    match words.as_slice() {
        ["slow"] => slow(client("imports").await?).await,
        ["wait", name] => {
            let _guard = client("web").await?.lock(*name).lock().await?;
            Ok(())
        }
        ["cycle", first, second] => cycle(client("billing").await?, first, second).await,
        ["die"] => die(client("reports").await?).await,
        _ => bail!("say slow, wait NAME, cycle FIRST SECOND, or die"),
    }
}

/// Holds a lock for much longer than others can wait.
async fn slow(client: Client) -> Result<()> {
    let guard = client.lock("catalog").lock().await?;
    guard.note("import of 2026-11-26, file 3 of 9");
    pending().await
}

/// Takes one lock and waits for another one. Two such processes with the names in the other order never end.
#[expect(clippy::disallowed_methods, reason = "an example has a clock of its own")]
async fn cycle(client: Client, first: &str, second: &str) -> Result<()> {
    let _first = client.lock(first).lock().await?;
    // The other process is as far.
    while !client.lock(second).is_locked().await? {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let _second = client.lock(second).lock().await?;
    Ok(())
}

/// Dies with a lock whose lease lasts an hour.
async fn die(client: Client) -> Result<()> {
    let _guard = client.lock("nightly").lease(Duration::from_secs(3600)).lock().await?;
    // A crash releases nothing.
    pending().await
}
