#![allow(unused)]

#[leasehold::locked(name = "job", on_busy = skip)]
async fn never_busy() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", wait = "5s", on_busy = fallback)]
async fn no_function() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", wait = "5s", on_busy = fallback(|| async { Ok(()) }))]
async fn no_path() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", wait = "5s", on_busy = fallback(later))]
async fn no_name((a, b): (u8, u8), _: u8) -> Result<(), leasehold::Error> {
    Ok(())
}

fn main() {}
