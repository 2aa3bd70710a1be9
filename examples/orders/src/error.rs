//! Errors of payments, orders and the settlement.
//!
//! Invariant: a caller of the service reacts differently to each variant. `http.rs` gives each variant a status.

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
