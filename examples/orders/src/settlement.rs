//! The nightly job: adds up what was paid.
//!
//! Every machine has it in its crontab; one of them runs it.
//!
//! Invariant: at most one run in the time of `settle_every`, over all copies.
//! Called by: `http`.

use leasehold::locked;
use serde::Serialize;

use crate::Shop;
use crate::error::ShopError;

/// What a run found; nothing when another copy ran it.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Settlement {
    pub(crate) ran: bool,
    pub(crate) orders: i64,
    pub(crate) amount_cents: i64,
}

impl Shop {
    /// Without `on_lost`, so a run whose lock is lost stops at its next await: it can be run again from the start.
    #[locked(
        name = "nightly-settlement",
        wait = "0s",
        on_busy = skip,
        min_hold = self.options.settle_every,
        watchdog = self.options.lease,
        client = self.locks
    )]
    pub(crate) async fn settle(&self) -> Result<Settlement, ShopError> {
        let (orders, amount_cents) = self.ledger.settle(&self.options.name).await?;
        Ok(Settlement { ran: true, orders, amount_cents })
    }
}
