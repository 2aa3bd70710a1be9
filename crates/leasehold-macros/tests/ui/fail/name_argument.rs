#![allow(unused)]

struct Item {
    sku: String,
}

#[leasehold::locked(name = "order:{order}:{item.sku}")]
async fn no_such_argument(order_id: u64, item: Item) -> Result<u64, leasehold::Error> {
    Ok(order_id)
}

#[leasehold::locked(name = "order:{order_id}")]
async fn no_arguments() -> Result<(), leasehold::Error> {
    Ok(())
}

#[leasehold::locked(name = "order:{}")]
async fn no_name(order_id: u64) -> Result<u64, leasehold::Error> {
    Ok(order_id)
}

#[leasehold::locked(name = "order:{0}")]
async fn a_number(order_id: u64) -> Result<u64, leasehold::Error> {
    Ok(order_id)
}

#[leasehold::locked(name = "order:{self.id}")]
async fn no_method(order_id: u64) -> Result<u64, leasehold::Error> {
    Ok(order_id)
}

#[leasehold::locked(name = "order:{item.sku()}")]
async fn a_call(item: Item) -> Result<(), leasehold::Error> {
    Ok(())
}

fn main() {}
