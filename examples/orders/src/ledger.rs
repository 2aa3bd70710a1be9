//! The tables of the shop, and the write that checks the fencing token.
//!
//! Invariant: `orders.fence` is the largest token that has written the order, and it never decreases.
//!
//! # How it works
//! The SQL is the same for PostgreSQL and SQLite. Each accepted write also adds a numbered row to `events`, in the same
//! transaction. The events of an order show that no older token wrote after a newer one.

use serde::Serialize;
use sqlx::any::{AnyPoolOptions, AnyRow};
use sqlx::{AnyPool, Row};

use crate::error::ShopError;

const SCHEMA: &str = include_str!("schema.sql");

/// The state of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Open,
    /// A copy is asking the provider, or died while it did, so the provider may have charged.
    Charging,
    Paid,
}

impl State {
    fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Charging => "charging",
            Self::Paid => "paid",
        }
    }

    fn read(text: &str) -> Self {
        match text {
            "paid" => Self::Paid,
            "charging" => Self::Charging,
            _ => Self::Open,
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Order {
    pub(crate) id: i64,
    pub(crate) state: State,
    pub(crate) amount_cents: i64,
    /// The largest token that has written the order, or 0 before the first payment.
    pub(crate) fence: i64,
}

/// Connects, and creates missing tables.
pub(crate) async fn connect(url: &str) -> Result<AnyPool, sqlx::Error> {
    sqlx::any::install_default_drivers();
    let pool = AnyPoolOptions::new().max_connections(8).connect(url).await?;
    if url.starts_with("postgres") {
        // PostgreSQL fails when two copies create one table at the same time.
        sqlx::raw_sql(&format!("BEGIN; SELECT pg_advisory_xact_lock(1); {SCHEMA} COMMIT;"))
            .execute(&pool)
            .await?;
    } else {
        sqlx::raw_sql(SCHEMA).execute(&pool).await?;
    }
    Ok(pool)
}

#[derive(Debug)]
pub(crate) struct Ledger {
    tables: AnyPool,
}

impl Ledger {
    pub(crate) fn new(tables: AnyPool) -> Self {
        Self { tables }
    }

    /// Adds an order. An order that exists stays unchanged.
    pub(crate) async fn take_in(&self, id: i64, amount_cents: i64) -> Result<Order, ShopError> {
        sqlx::query("INSERT INTO orders (id, state, amount_cents, fence) VALUES ($1, 'open', $2, 0) ON CONFLICT DO NOTHING")
            .bind(id)
            .bind(amount_cents)
            .execute(&self.tables)
            .await?;
        self.order(id).await
    }

    pub(crate) async fn order(&self, id: i64) -> Result<Order, ShopError> {
        let row = sqlx::query("SELECT state, amount_cents, fence FROM orders WHERE id = $1")
            .bind(id)
            .fetch_optional(&self.tables)
            .await?
            .ok_or(ShopError::NoSuchOrder { id })?;
        let state = State::read(row.try_get("state")?);
        Ok(Order { id, state, amount_cents: row.try_get("amount_cents")?, fence: row.try_get("fence")? })
    }

    /// Sets the state of an order unless it is paid, and returns whether it did. Refuses a token older than the
    /// order's.
    ///
    /// The order may have been paid since the caller read it, by an earlier holder that lost the lock while it waited
    /// for the provider, before any newer holder wrote.
    ///
    /// The condition is `<=` and not `<`, because one holder writes more than once with its token. Two holders never
    /// have the same token.
    pub(crate) async fn write(&self, id: i64, token: u64, state: State) -> Result<bool, ShopError> {
        let token = i64::try_from(token).unwrap_or(i64::MAX);
        let mut transaction = self.tables.begin().await?;
        let written = sqlx::query(
            "UPDATE orders SET state = $3, fence = $2 WHERE id = $1 AND fence <= $2 AND state <> 'paid'",
        )
        .bind(id)
        .bind(token)
        .bind(state.as_str())
        .execute(&mut *transaction)
        .await?;
        if written.rows_affected() == 0 {
            drop(transaction); // rolls back
            let newest = self.order(id).await?.fence;
            return if newest > token { Err(ShopError::Stale { id, token, newest }) } else { Ok(false) };
        }
        // The transaction locks the row of the order until its commit, so no other event takes this number.
        sqlx::query(
            "INSERT INTO events (order_id, number, token, state) \
             SELECT $1, COUNT(*) + 1, $2, $3 FROM events WHERE order_id = $1",
        )
        .bind(id)
        .bind(token)
        .bind(state.as_str())
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(true)
    }

    /// Sums up the paid orders and records one settlement: the number of orders, and the amount.
    pub(crate) async fn settle(&self, by: &str) -> Result<(i64, i64), ShopError> {
        let read = |row: AnyRow| Ok::<(i64, i64), sqlx::Error>((row.try_get(0)?, row.try_get(1)?));
        let row = sqlx::query(
            "SELECT COUNT(*), CAST(COALESCE(SUM(amount_cents), 0) AS BIGINT) FROM orders WHERE state = 'paid'",
        )
        .fetch_one(&self.tables)
        .await?;
        let (orders, amount_cents) = read(row)?;
        sqlx::query("INSERT INTO settlements (settled_by, orders, amount_cents) VALUES ($1, $2, $3)")
            .bind(by)
            .bind(orders)
            .bind(amount_cents)
            .execute(&self.tables)
            .await?;
        Ok((orders, amount_cents))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a ledger with order 42, in a file in a temporary folder.
    async fn ledger() -> (Ledger, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}?mode=rwc", folder.path().join("orders.db").display());
        let ledger = Ledger::new(connect(&url).await.unwrap());
        ledger.take_in(42, 100).await.unwrap();
        (ledger, folder)
    }

    #[tokio::test]
    async fn one_holder_writes_twice_with_its_token_and_an_older_one_is_refused() {
        let (ledger, _folder) = ledger().await;
        assert!(ledger.write(42, 7, State::Charging).await.unwrap());
        let refused = ledger.write(42, 6, State::Paid).await.unwrap_err();
        assert!(matches!(refused, ShopError::Stale { id: 42, token: 6, newest: 7 }), "{refused}");
        assert_eq!(ledger.order(42).await.unwrap().state, State::Charging);
        assert!(ledger.write(42, 7, State::Paid).await.unwrap());
        assert_eq!(ledger.order(42).await.unwrap().state, State::Paid);
    }

    #[tokio::test]
    async fn a_paid_order_stays_unchanged_for_a_newer_token() {
        let (ledger, _folder) = ledger().await;
        assert!(ledger.write(42, 1, State::Paid).await.unwrap());
        assert!(!ledger.write(42, 2, State::Charging).await.unwrap());
        let order = ledger.order(42).await.unwrap();
        assert_eq!((order.state, order.fence), (State::Paid, 1));
    }

    #[tokio::test]
    async fn a_missing_order_is_an_error() {
        let (ledger, _folder) = ledger().await;
        assert!(matches!(ledger.write(43, 1, State::Paid).await, Err(ShopError::NoSuchOrder { id: 43 })));
        let again = ledger.take_in(42, 999).await.unwrap();
        assert_eq!(again.amount_cents, 100, "an order that exists stays unchanged");
    }
}
