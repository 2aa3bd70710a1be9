//! Takes one lock over three independent servers.
//!
//! `cargo run -p leasehold --all-features --example redlock -- redis://10.0.0.1 redis://10.0.0.2 redis://10.0.0.3`;
//! without arguments it runs three in-process servers.
#![allow(clippy::print_stdout, reason = "an example talks")]

use leasehold::Redlock;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let urls: Vec<String> = std::env::args().skip(1).collect();
    let redlock = if urls.is_empty() {
        // These servers live as long as the process, so none can restart without its data.
        let nodes = ["memory://node-1", "memory://node-2", "memory://node-3"];
        Redlock::builder().nodes_persist_every_write().connect(nodes).await?
    } else {
        Redlock::connect(urls.iter().map(String::as_str)).await?
    };
    let guard = redlock.lock("order:42").lock().await?;
    println!("held on {} nodes, for another {:?}", guard.votes(), guard.remaining());
    println!("{:?}", guard.release().await?);
    Ok(())
}
