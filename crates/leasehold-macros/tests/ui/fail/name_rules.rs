#![allow(unused)]

#[leasehold::locked(name = "")]
async fn empty() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "a\nb")]
async fn control_character() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "{{orders}}:{id}")]
async fn braces(id: u64) -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "order:{id")]
async fn open(id: u64) -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "redisson_lock_queue:{id}")]
async fn reserved(id: u64) -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "order:{id:w$}")]
async fn width(id: u64, w: usize) -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = 42)]
async fn number() -> Result<(), leasehold::Error> {
    Ok(())
}

fn main() {}
