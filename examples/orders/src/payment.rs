//! A payment: the function under the lock.
//!
//! Invariant: the order is marked before the provider is asked, and marked again after it has answered, each time only if
//! nobody with a newer token has written meanwhile.
//! Called by: `http`.

use leasehold::locked;
use serde::Serialize;

use crate::Shop;
use crate::error::ShopError;
use crate::ledger::State;

/// What became of a request to pay.
#[derive(Debug, Serialize)]
pub(crate) struct Payment {
    pub(crate) order: i64,
    pub(crate) outcome: Outcome,
    /// The copy that answers.
    pub(crate) by: String,
    pub(crate) token: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// By this request.
    PaidNow,
    /// By an earlier one.
    PaidBefore,
}

impl Shop {
    /// Pays an order, unless it is paid. One request at a time in whatever copy, and each next one with a larger token.
    ///
    /// `on_lost = finish`: once the provider has been asked, its answer is to be written down. Whether that may still be
    /// done when the lock was lost meanwhile, the token decides.
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
        // Written down first: whoever finds an order in this state knows that it may have been charged.
        if !self.ledger.write(id, token, State::Charging).await? {
            return Ok(answer(Outcome::PaidBefore));
        }
        self.provider.charge(id, order.amount_cents, &self.options.name).await?;
        let written = self.ledger.write(id, token, State::Paid).await?;
        Ok(answer(if written { Outcome::PaidNow } else { Outcome::PaidBefore }))
    }
}
