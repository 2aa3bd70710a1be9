#![allow(unused)]

struct State {
    locks: String,
}

#[leasehold::locked(name = "job", client = state.locks)]
async fn no_client(state: State) -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", client = state.clients)]
async fn no_field(state: State) -> Result<(), leasehold::Error> {
    Ok(())
}

fn main() {}
