#![allow(unused)]

#[leasehold::locked(name = "job")]
fn blocking() -> Result<(), leasehold::Error> {
    Ok(())
}

fn main() {}
