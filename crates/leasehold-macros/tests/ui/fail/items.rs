#![allow(unused)]

#[leasehold::locked(name = "job")]
struct Structure;

#[leasehold::locked(name = "job")]
mod module {
    pub fn inside() {}
}

#[leasehold::locked(name = "job")]
impl Structure {
    fn method(&self) {}
}

#[leasehold::locked(name = "job")]
const CONSTANT: u64 = 7;

fn main() {}
