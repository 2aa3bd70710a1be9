//! Transfers between two accounts under both locks. Two transfers in opposite directions do not deadlock.
//!
//! `cargo run -p leasehold --all-features --example multi`, or with the URL of a server after `--`.
#![allow(clippy::print_stdout, reason = "an example talks")]

use leasehold::{Client, Error, MultiLock};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://".to_owned());
    let client = Client::connect(&url).await?;
    let transfer = async |from: &str, to: &str| -> Result<(), Error> {
        let accounts = [from, to].map(|account| client.lock(format!("account:{account}")).into());
        let both = MultiLock::of(accounts).lock().await?;
        println!("from {from} to {to}, held for another {:?}", both.remaining());
        both.release().await?;
        Ok(())
    };
    let (there, back) = tokio::join!(transfer("alice", "bob"), transfer("bob", "alice"));
    there.and(back)
}
