#![allow(unused)]

#[leasehold::locked(name = "job", wait = "5s", on_busy = fallback(later))]
async fn other_arguments(a: u8) -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", wait = "5s", on_busy = fallback(at_once))]
async fn not_async() -> Result<(), leasehold::Error> {
    Ok(())
}

async fn later(a: u8, b: u8) -> Result<(), leasehold::Error> {
    Ok(())
}

fn at_once() -> Result<(), leasehold::Error> {
    Ok(())
}

fn main() {}
