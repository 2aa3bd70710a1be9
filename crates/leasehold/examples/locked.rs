//! Runs functions under a lock, by the attribute `locked`.
//!
//! `cargo run -p leasehold --all-features --example locked`, or with the URL of a server after `--`.
#![allow(clippy::print_stdout, reason = "an example talks")]

use leasehold::{Client, Error, RunError, locked};

struct Shop {
    name: &'static str,
}

impl Shop {
    /// Charges an order in one shop at a time. A resource that checks the token refuses older ones.
    #[locked(name = "order:{order_id}", kind = fenced, fence = token, wait = "5s")]
    async fn charge(&self, order_id: u64, amount: u64) -> Result<u64, Error> {
        println!("{} charges order {order_id}, token {token}", self.name);
        self.write_down(order_id).await?; // takes the same lock again and re-enters
        Ok(amount)
    }

    #[locked(name = "order:{order_id}", kind = fenced)]
    async fn write_down(&self, order_id: u64) -> Result<(), Error> {
        println!("{} writes order {order_id} down", self.name);
        Ok(())
    }
}

/// Makes the report at most once in ten minutes; every other call is skipped.
#[locked(name = "daily-report", min_hold = "10m", wait = "0s", on_busy = skip)]
async fn report(by: &str) -> Result<Option<String>, RunError> {
    Ok(Some(format!("the report of {by}")))
}

/// Downloads a file; at most three downloads run at once, over all processes.
#[locked(name = "downloads", kind = semaphore(3), watchdog = "10s", max_hold = "1h")]
async fn download(file: u32) -> Result<u32, RunError> {
    println!("file {file}");
    Ok(file)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://".to_owned());
    leasehold::install(Client::connect(&url).await?)?;

    let (one, other) = (Shop { name: "one" }, Shop { name: "other" });
    let (paid, paid_again) = tokio::join!(one.charge(42, 100), other.charge(42, 100));
    println!("{} and {}", paid?, paid_again?);

    println!("{:?}, {:?}", report("one").await?, report("other").await?);

    let files = tokio::join!(download(1), download(2), download(3), download(4));
    println!("{files:?}");
    leasehold::installed()?.close().await;
    Ok(())
}
