#![allow(unused)]

#[leasehold::locked(name = "job", fence = token)]
async fn no_tokens() -> Result<u64, leasehold::Error> {
    Ok(1)
}

#[leasehold::locked(name = "job", kind = fair, fence = token)]
async fn other_kind() -> Result<u64, leasehold::Error> {
    Ok(1)
}

#[leasehold::locked(name = "job", kind = fenced, fence = "token")]
async fn no_name() -> Result<u64, leasehold::Error> {
    Ok(1)
}

#[leasehold::locked(name = "job", kind = fenced, fence = token)]
async fn taken(token: u64) -> Result<u64, leasehold::Error> {
    Ok(token)
}

fn main() {}
