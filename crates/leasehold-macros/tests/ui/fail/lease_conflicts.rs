#![allow(unused)]

#[leasehold::locked(name = "job", lease = "10s", watchdog = "30s")]
async fn both() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", lease = "10s", max_renewals = 360)]
async fn renewals() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", lease = "10s", max_hold = "1h")]
async fn most() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", lease = "2ms")]
async fn short() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", watchdog = "400d")]
async fn long() -> Result<(), leasehold::Error> {
    Ok(())
}

fn main() {}
