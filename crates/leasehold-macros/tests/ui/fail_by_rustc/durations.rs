#![allow(unused)]

use std::time::Duration;

const WAIT: u64 = 5;

#[leasehold::locked(name = "job", wait = WAIT)]
async fn no_duration() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", wait = Duration::from_secs("5"))]
async fn in_an_expression() -> Result<(), leasehold::Error> {
    Ok(())
}

fn main() {}
