#![allow(unused)]

#[leasehold::locked(name = "job", min_hold = "2h", max_hold = "1h")]
async fn crossed() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", min_hold = "5m", on_finish = detach)]
async fn kept() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", max_hold = "1ms", min_hold = "400d")]
async fn bounds() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", lease = "10s", min_hold = "11s")]
async fn ended() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", lease = "10s", min_hold = "10s")]
async fn equal() -> Result<(), leasehold::Error> {
    Ok(())
}

fn main() {}
