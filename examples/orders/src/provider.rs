//! A stand-in for a payment provider, an external service with tables of its own.
//!
//! It takes an idempotency key with each request, as a real provider does, here the number of the order, and charges
//! once per key. It does not know the locks. It records every request, so that tests can count them.
//!
//! Invariant: one charge per key. The provider charges at once and answers late, so a copy that dies while it waits has
//! charged.

use std::time::Duration;

use sqlx::AnyPool;

pub(crate) struct Provider {
    tables: AnyPool,
    delay: Duration,
}

impl Provider {
    pub(crate) fn new(tables: AnyPool, delay: Duration) -> Self {
        Self { tables, delay }
    }

    /// Charges once per key. A repeated key gets the same answer.
    #[expect(clippy::disallowed_methods, reason = "the provider answers late")]
    pub(crate) async fn charge(&self, key: i64, amount_cents: i64, from: &str) -> Result<(), sqlx::Error> {
        let mut transaction = self.tables.begin().await?;
        sqlx::query("INSERT INTO charge_requests (idempotency_key, asked_by) VALUES ($1, $2)")
            .bind(key)
            .bind(from)
            .execute(&mut *transaction)
            .await?;
        sqlx::query(
            "INSERT INTO charges (idempotency_key, amount_cents) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        )
        .bind(key)
        .bind(amount_cents)
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        tokio::time::sleep(self.delay).await;
        Ok(())
    }
}
