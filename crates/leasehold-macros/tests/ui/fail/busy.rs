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

#[leasehold::locked(name = "job", wait = "5s", on_busy = fallback(later))]
async fn other_arguments(a: u8) -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", wait = "5s", on_busy = fallback(at_once))]
async fn not_async() -> Result<(), leasehold::Error> {
    Ok(())
}

async fn later(a: u8, b: u8) -> Result<(), leasehold::Error> {
    Ok(())
}

fn at_once() -> Result<(), leasehold::Error> {
    Ok(())
}

fn main() {}
