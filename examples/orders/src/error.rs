//! What can go wrong with a payment, an order or the settlement.
//!
//! Invariant: each kind is one that the caller of the service acts on differently; `http.rs` gives each a status.
//! Called by: everything here.

use leasehold::RunError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ShopError {
    #[error("there is no order {id}")]
    NoSuchOrder { id: i64 },
    #[error("stale write refused: order {id} was written with token {newest}, this one has {token}")]
    Stale { id: i64, token: i64, newest: i64 },
    #[error("not done under its lock")]
    Lock(#[from] RunError),
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
}
