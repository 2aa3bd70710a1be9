#![allow(unused)]

#[leasehold::locked(name = "job", kind = fare)]
async fn kind() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", kind = "fair")]
async fn kind_in_quotes() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", kind = fair(3))]
async fn kind_with_number() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", kind = semaphore)]
async fn semaphore() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", kind = semaphore(0))]
async fn semaphore_of_none() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", wait = "5s", on_busy = skp, on_lost = ignore, on_finish = free)]
async fn others() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", kind = semaphore("3"))]
async fn semaphore_of_text() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", kind = semaphore(-1))]
async fn semaphore_of_less() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", max_renewals = -1)]
async fn renewals_for_ever() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", max_renewals = 99999999999)]
async fn renewals_beyond_counting() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", max_renewals = 3u64)]
async fn renewals_of_another_type() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", max_renewals = "1h")]
async fn renewals_of_time() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", replicas = 2)]
async fn replicas_by_number() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", replicas = "all")]
async fn replicas_by_word() -> Result<(), leasehold::Error> {
    Ok(())
}

fn main() {}
