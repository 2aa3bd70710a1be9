#![allow(unused)]

use std::future::Future;
use std::pin::Pin;

#[leasehold::locked(name = "job")]
const fn constant() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job")]
async unsafe fn unsafely() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job")]
extern "C" fn foreign() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job")]
fn boxed() -> Pin<Box<dyn Future<Output = Result<(), leasehold::Error>> + Send>> {
    Box::pin(async { Ok(()) })
}

#[leasehold::locked(name = "job")]
fn opaque() -> impl Future<Output = Result<(), leasehold::Error>> {
    async { Ok(()) }
}

trait Job {
    #[leasehold::locked(name = "job")]
    async fn without_body(&self) -> Result<(), leasehold::Error>;
}

fn main() {}
