//! A queue at one printer: whoever came first prints first, over all processes.
//!
//! `cargo run -p leasehold --example fair -- redis://127.0.0.1:6379` in several terminals; `-- memory://` in one.
#![allow(clippy::print_stdout, reason = "an example talks")]

use futures_util::future::poll_immediate;
use leasehold::{Client, Error};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://".to_owned());
    let client = Client::connect(&url).await?;
    let printer = client.fair_lock("printer");
    let first = printer.lock().await?;
    // Three documents queue up, one after the other.
    let mut queue = Vec::new();
    for document in ["invoice", "letter", "poster"] {
        let mut waiting = Box::pin(printer.lock());
        // One poll puts it into the queue on the server.
        assert!(poll_immediate(&mut waiting).await.is_none());
        queue.push((document, waiting));
    }
    first.release().await?;
    for (document, waiting) in queue {
        let turn = waiting.await?;
        println!("printing the {document}");
        turn.release().await?;
    }
    Ok(())
}
