#![allow(unused)]

#[leasehold::locked(wait = "5s")]
async fn pay(order_id: u64) -> Result<u64, leasehold::Error> {
    Ok(order_id)
}

#[leasehold::locked]
async fn pay_all() -> Result<(), leasehold::Error> {
    Ok(())
}

fn main() {}
