#![allow(unused)]

use leasehold::{Error, Redlock};

#[leasehold::locked(name = [])]
async fn none() -> Result<(), Error> {
    Ok(())
}

#[leasehold::locked(name = ["a:{from}", "b:{nobody}", "c{{1}}"])]
async fn two_problems(from: u32) -> Result<(), Error> {
    Ok(())
}

#[leasehold::locked(name = ["a", "b"], kind = semaphore(2))]
async fn permits() -> Result<(), Error> {
    Ok(())
}

#[leasehold::locked(name = ["a", "b"], kind = fenced, fence = token)]
async fn tokens() -> Result<(), Error> {
    Ok(())
}

#[leasehold::locked(name = ["a", "b"], redlock = redlock)]
async fn two_on_a_quorum(redlock: &Redlock) -> Result<(), Error> {
    Ok(())
}

#[leasehold::locked(name = "a", redlock = redlock, client = client, kind = fair, max_hold = "1h", max_renewals = 3)]
async fn on_a_quorum(redlock: &Redlock, client: &leasehold::Client) -> Result<(), Error> {
    Ok(())
}

#[leasehold::locked(name = "a", lease = "5s", margin = "5s")]
async fn without_validity() -> Result<(), Error> {
    Ok(())
}

fn main() {}
