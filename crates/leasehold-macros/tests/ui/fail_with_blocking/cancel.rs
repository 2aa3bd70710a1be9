#![allow(unused)]

#[leasehold::locked(name = "job", on_lost = cancel)]
fn blocking() -> Result<(), leasehold::Error> {
    Ok(())
}

fn main() {}
