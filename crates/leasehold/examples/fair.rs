//! Prints documents in the order of arrival, over all processes.
//!
//! `cargo run -p leasehold --all-features --example fair`, or with the URL of a server after `--`, in several
//! terminals.
#![allow(clippy::print_stdout, reason = "an example talks")]

use futures_util::future::poll_immediate;
use leasehold::{Client, Error};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://".to_owned());
    let client = Client::connect(&url).await?;
    let printer = client.fair_lock("printer");
    let first = printer.lock().await?;
    // Three documents enter the queue, one after the other.
    let mut queue = Vec::new();
    for document in ["invoice", "letter", "poster"] {
        let mut waiting = Box::pin(printer.lock());
        // The first poll enters the queue on the server.
        assert!(poll_immediate(&mut waiting).await.is_none());
        queue.push((document, waiting));
    }
    first.release().await?;
    for (document, waiting) in queue {
        let guard = waiting.await?;
        println!("printing the {document}");
        guard.release().await?;
    }
    Ok(())
}
