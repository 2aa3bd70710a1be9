//! A transfer between two accounts takes both locks or none, in whichever order they are named.
//!
//! `cargo run -p leasehold --example multi -- redis://127.0.0.1:6379`, or `-- memory://`.
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
