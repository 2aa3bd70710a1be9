//! The Rust program of the guide page, below this line.

use leasehold::{Client, PlainFormat};

pub async fn nightly(url: &str) -> Result<(), leasehold::Error> {
    let client = Client::connect(url).await?; // as in "redis://127.0.0.1:6379"
    let lock = client.plain_lock("nightly").format(PlainFormat::redis_py());
    let guard = lock.lock().await?; // waits while another language has it
    println!("Rust has it");
    guard.release().await?;
    Ok(())
}
