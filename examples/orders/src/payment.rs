//! A payment, the function under the lock.
//!
//! Invariant: the order is marked before the call to the provider and again after its answer, each time only if no
//! newer token has written.

use leasehold::locked;
use serde::Serialize;

use crate::Shop;
use crate::error::ShopError;
use crate::ledger::State;

/// The answer to a request to pay.
#[derive(Debug, Serialize)]
pub(crate) struct Payment {
    pub(crate) order: i64,
    pub(crate) outcome: Outcome,
    /// The name of the copy that answers.
    pub(crate) by: String,
    pub(crate) token: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// This request paid.
    PaidNow,
    /// An earlier request paid.
    PaidBefore,
}

impl Shop {
    /// Pays an order, unless it is paid. One request at a time runs in all copies, each with a larger token than the
    /// last.
    ///
    /// `on_lost = finish` lets the service record the answer of the provider even if the lock was lost during the call.
    /// The token decides whether it still may.
    #[locked(
        name = "order:{id}",
        kind = fenced,
        fence = token,
        watchdog = self.options.lease,
        wait = self.options.wait,
        on_busy = error,
        on_lost = finish,
        client = self.locks
    )]
    pub(crate) async fn pay(&self, id: i64) -> Result<Payment, ShopError> {
        let order = self.ledger.order(id).await?;
        let answer = |outcome| Payment { order: id, outcome, by: self.options.name.clone(), token };
        if order.state == State::Paid {
            return Ok(answer(Outcome::PaidBefore));
        }
        // The mark comes first, so the next holder sees that the provider may have charged.
        if !self.ledger.write(id, token, State::Charging).await? {
            return Ok(answer(Outcome::PaidBefore));
        }
        self.provider.charge(id, order.amount_cents, &self.options.name).await?;
        let written = self.ledger.write(id, token, State::Paid).await?;
        Ok(answer(if written { Outcome::PaidNow } else { Outcome::PaidBefore }))
    }
}
