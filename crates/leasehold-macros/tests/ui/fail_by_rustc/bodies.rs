#![allow(unused)]

fn parsed(text: &str) -> Result<u64, std::num::ParseIntError> {
    text.parse()
}

#[leasehold::locked(name = "job")]
async fn wrong_value() -> Result<u64, leasehold::Error> {
    Ok("seven")
}

#[leasehold::locked(name = "job")]
async fn wrong_error(text: &str) -> Result<u64, leasehold::Error> {
    Ok(parsed(text)?)
}

#[leasehold::locked(name = "job")]
async fn unknown_name() -> Result<u64, leasehold::Error> {
    Ok(entered)
}

#[leasehold::locked(name = "job")]
async fn immutable(text: String) -> Result<String, leasehold::Error> {
    text.push('x');
    Ok(text)
}

#[leasehold::locked(name = "job")]
async fn moved(text: String) -> Result<usize, leasehold::Error> {
    drop(text);
    Ok(text.len())
}

fn main() {}
