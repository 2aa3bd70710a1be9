#![allow(unused)]

const COPIES: u32 = 2;

#[leasehold::locked(name = "job", replicas = COPIES)]
async fn no_policy() -> Result<(), leasehold::Error> {
    Ok(())
}

fn main() {}
