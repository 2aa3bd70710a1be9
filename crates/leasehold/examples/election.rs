//! One leader of two candidates, which stops, and is followed by the other.
//!
//! `cargo run -p leasehold --all-features --example election`, or with the URL of a server after `--`.
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::convert::Infallible;

use leasehold::Client;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://scheduler".to_owned());
    // Two clients stand for two processes.
    let (one, other) = (Client::connect(&url).await?, Client::connect(&url).await?);
    let first = one.election("scheduler").candidate("a");
    let second = other.election("scheduler").candidate("b");

    let leading = first.lead(async |term| {
        println!("a leads, term {}", term.token());
        let asked = term.asked().await;
        println!("a ends its work: {asked}");
        Ok::<(), Infallible>(())
    });
    let stopper = first.stopper();
    let following = async {
        let mut view = second.observe();
        let mut leader = None;
        while leader.is_none() {
            let Some(state) = view.changed().await else { break };
            leader = state.leader().and_then(|leader| leader.candidate.clone());
        }
        println!("b sees {leader:?}");
        let ((), term) = tokio::join!(stopper.stop(), second.campaign());
        let term = term?;
        println!("b leads, term {}", term.token());
        term.resign().await?;
        Ok::<(), leasehold::Error>(())
    };
    let (led, followed) = tokio::join!(leading, following);
    followed?;
    println!("a led {} term", led?.terms);
    Ok(())
}
