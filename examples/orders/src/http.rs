//! The HTTP routes of the service.
//!
//! Invariant: each failure has a status and a word of its own, so `stale`, `busy`, `lost` and `unavailable` are
//! different answers.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use leasehold::RunError;
use serde::{Deserialize, Serialize};

use crate::Shop;
use crate::error::ShopError;
use crate::ledger::Order;
use crate::payment::Payment;
use crate::settlement::Settlement;

type Shared = State<Arc<Shop>>;

pub(crate) fn routes(shop: Arc<Shop>) -> Router {
    Router::new()
        .route("/livez", get(alive))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/orders/{id}", get(look).put(take_in))
        .route("/orders/{id}/pay", post(pay))
        .route("/jobs/settlement", post(settle))
        .with_state(shop)
}

/// Tells whether a restart would help. A server that is gone is no reason for one.
async fn alive(State(shop): Shared) -> StatusCode {
    status(shop.locks.health().is_alive())
}

/// Tells whether requests make sense. This service can do nothing without its locks.
async fn ready(State(shop): Shared) -> StatusCode {
    status(shop.locks.health().is_ready())
}

const fn status(is_well: bool) -> StatusCode {
    if is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

/// Returns the metrics of the locks, as Prometheus reads them.
async fn metrics(State(shop): Shared) -> String {
    shop.metrics.render()
}

async fn look(State(shop): Shared, Path(id): Path<i64>) -> Result<Json<Order>, ShopError> {
    shop.ledger.order(id).await.map(Json)
}

/// The body of a new order.
#[derive(Deserialize)]
struct NewOrder {
    amount_cents: i64,
}

async fn take_in(
    State(shop): Shared,
    Path(id): Path<i64>,
    Json(order): Json<NewOrder>,
) -> Result<Json<Order>, ShopError> {
    shop.ledger.take_in(id, order.amount_cents).await.map(Json)
}

async fn pay(State(shop): Shared, Path(id): Path<i64>) -> Result<Json<Payment>, ShopError> {
    shop.pay(id).await.map(Json)
}

async fn settle(State(shop): Shared) -> Result<Json<Settlement>, ShopError> {
    shop.settle().await.map(Json)
}

/// The answer to a failed request.
#[derive(Serialize)]
struct Failure {
    error: &'static str,
    message: String,
}

impl IntoResponse for ShopError {
    fn into_response(self) -> Response {
        let (status, error) = match &self {
            Self::NoSuchOrder { .. } => (StatusCode::NOT_FOUND, "no_such_order"),
            Self::Stale { .. } => (StatusCode::CONFLICT, "stale"),
            Self::Lock(RunError::Busy { .. }) => (StatusCode::LOCKED, "busy"),
            Self::Lock(RunError::Lost { .. }) => (StatusCode::SERVICE_UNAVAILABLE, "lost"),
            Self::Lock(_) => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            Self::Database(_) => (StatusCode::INTERNAL_SERVER_ERROR, "database"),
        };
        // The causes name locks, servers and tables, so they go into the log and not to the customer.
        let message = self.to_string();
        log(&anyhow::Error::from(self));
        (status, Json(Failure { error, message })).into_response()
    }
}

#[expect(clippy::print_stderr, reason = "the service has no other log")]
fn log(failure: &anyhow::Error) {
    eprintln!("{failure:#}");
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use leasehold::error::NotInstalled;

    use super::*;

    #[tokio::test]
    async fn the_customer_sees_no_cause() {
        let response = ShopError::Lock(NotInstalled.into()).into_response();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        let body = to_bytes(response.into_body(), 1024).await.unwrap();
        assert_eq!(body, r#"{"error":"unavailable","message":"not done under its lock"}"#);
    }
}
