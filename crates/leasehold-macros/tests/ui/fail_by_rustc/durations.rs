#![allow(unused)]

use std::time::Duration;

const WAIT: u64 = 5;

// Not a function of the standard library: the compiler quotes its source only where that source is installed.
fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[leasehold::locked(name = "job", wait = WAIT)]
async fn no_duration() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", wait = seconds("5"))]
async fn in_an_expression() -> Result<(), leasehold::Error> {
    Ok(())
}

fn main() {}
