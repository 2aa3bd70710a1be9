#![allow(unused)]

#[leasehold::locked(name = "job", waitTime = 5, expire = "10s", leese = "10s", colour = red)]
async fn unknown() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked("job")]
async fn unnamed() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", fair)]
async fn a_word_alone() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", wait)]
async fn an_option_alone() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "job", wait = )]
async fn no_value() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(wait, name = "job")]
async fn a_name_after_a_problem() -> Result<(), leasehold::Error> {
    Ok(())
}

fn main() {}
