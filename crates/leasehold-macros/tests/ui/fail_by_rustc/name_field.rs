#![allow(unused)]

struct Item {
    sku: String,
}

#[leasehold::locked(name = "order:{item.sku}:{item.size}")]
async fn no_such_field(item: Item) -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "order:{item}")]
async fn no_text(item: Item) -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "order:{item.sku:04q}")]
async fn no_format(item: Item) -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = item)]
async fn no_name(item: Item) -> Result<(), leasehold::Error> {
    Ok(())
}

fn main() {}
