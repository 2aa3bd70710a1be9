//! A stand-in for a payment provider: somebody else's service, with tables of its own.
//!
//! Like a real one it takes an idempotency key with each request, here the order's number, and charges once for one key;
//! it knows nothing of our locks. It keeps every request, so that one can count how often it was asked.
//!
//! Invariant: one charge for one key. It charges at once and answers late, so whoever dies waiting has charged.
//! Called by: `payment`.

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

    /// Charges, unless this key was charged before; then the answer is the same, and nothing is charged.
    #[expect(clippy::disallowed_methods, reason = "a provider takes its time")]
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
