use std::time::Duration;

const WAIT: u64 = 5;

#[leasehold::locked(name = "job", wait = "soon", min_hold = 5, max_hold = "5", watchdog = "5M")]
async fn texts() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", wait = WAIT)]
async fn no_duration() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", wait = Duration::from_secs("5"))]
async fn in_an_expression() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", max_renewals = "1h")]
async fn no_count() -> Result<(), leasehold::Error> {
    Ok(())
}

fn main() {}
