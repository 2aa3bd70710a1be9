#![allow(unused)]

#[leasehold::locked(name = "job", wait = "5s", wait = "6s")]
async fn twice() -> Result<(), leasehold::Error> {
    Ok(())
}

fn main() {}
