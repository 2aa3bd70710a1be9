//! A service that takes payments for orders. Several copies of it run side by side.
//!
//! Invariant: an order is charged once, also when a copy dies or sleeps. `examples/README.md` says which part
//! guarantees what.

mod error;
mod http;
mod ledger;
mod options;
mod payment;
mod provider;
mod settlement;

use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Parser;
use leasehold::Client;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use ledger::Ledger;
use options::Options;
use provider::Provider;

/// The state that all requests share.
struct Shop {
    options: Options,
    locks: Client,
    ledger: Ledger,
    provider: Provider,
    metrics: PrometheusHandle,
}

/// Installs the recorder of the metrics. Histograms have the buckets that the library recommends.
fn record_metrics() -> Result<PrometheusHandle> {
    let mut builder = PrometheusBuilder::new();
    for (name, buckets) in leasehold::observe::BUCKETS {
        builder = builder.set_buckets_for_metric(Matcher::Full((*name).to_owned()), buckets)?;
    }
    Ok(builder.install_recorder()?)
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let options = Options::parse();
    let metrics = record_metrics()?;
    let locks = Client::builder().watchdog(options.lease).connect(&options.redis).await?;
    let database = ledger::connect(&options.database).await.context("no connection to the database")?;
    let listener = TcpListener::bind(options.listen).await.context("cannot listen")?;
    announce(&listener)?;
    let ledger = Ledger::new(database.clone());
    let provider = Provider::new(database, options.provider_delay);
    let shop = Arc::new(Shop { options, locks: locks.clone(), ledger, provider, metrics });
    axum::serve(listener, http::routes(shop)).with_graceful_shutdown(asked_to_stop()?).await?;
    // Releases all remaining holds, so that no waiter waits for a lease to end.
    locks.close().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the system may have chosen the port")]
fn announce(listener: &TcpListener) -> Result<()> {
    println!("listening on http://{}", listener.local_addr()?);
    Ok(())
}

/// Resolves with the first SIGTERM or Ctrl-C.
fn asked_to_stop() -> Result<impl Future<Output = ()> + Send + 'static> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
