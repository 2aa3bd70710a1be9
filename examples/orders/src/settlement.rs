//! The nightly job, which sums up the payments.
//!
//! Every machine starts the job from its crontab, and one machine runs it.
//!
//! Invariant: at most one run per `settle_every`, over all copies.

use leasehold::locked;
use serde::Serialize;

use crate::Shop;
use crate::error::ShopError;

/// The result of a run, empty when the run was skipped.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Settlement {
    pub(crate) ran: bool,
    pub(crate) orders: i64,
    pub(crate) amount_cents: i64,
}

impl Shop {
    /// Has no `on_lost`. A run that loses its lock stops at its next await point, because it can run again from the
    /// start.
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
