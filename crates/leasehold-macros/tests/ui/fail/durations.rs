#![allow(unused)]

#[leasehold::locked(name = "job", wait = "soon", min_hold = 5, max_hold = "5", watchdog = "5M")]
async fn texts() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", max_renewals = "1h")]
async fn no_count() -> Result<(), leasehold::Error> {
    Ok(())
}

fn main() {}
