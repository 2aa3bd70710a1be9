#![allow(unused)]

#[derive(Debug)]
struct PayError;

struct Receipt;

#[leasehold::locked(name = "job")]
async fn nothing() {}

#[leasehold::locked(name = "job")]
async fn no_result() -> u64 {
    7
}

#[leasehold::locked(name = "job")]
async fn no_way_to_say_it() -> Result<u64, PayError> {
    Ok(7)
}

#[leasehold::locked(name = "job", wait = "5s", on_busy = skip)]
async fn nothing_to_skip_to() -> Result<Receipt, leasehold::Error> {
    Ok(Receipt)
}

fn main() {}
