//! The rate of one hot lock: tasks of one client acquire and release it in turns, so most holds are handed off.
//!
//! `docs/results/observing.md` compares it with and without the feature `metrics`. With it, the program has a Prometheus
//! recorder.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![allow(clippy::print_stdout, reason = "the result")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leasehold::{Client, Error};
use leasehold_testkit::servers::RedisServer;

/// The tasks that want the lock.
const TASKS: usize = 16;
const WARM_UP: Duration = Duration::from_millis(500);
const MEASURED: Duration = Duration::from_secs(3);

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Error> {
    #[cfg(feature = "metrics")]
    install_recorder();
    let server = RedisServer::start();
    let client = Client::connect(&server.url()).await?;
    let pairs = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (lock, pairs) = (client.lock("order:42"), Arc::clone(&pairs));
            tokio::spawn(async move {
                loop {
                    lock.lock().await?.release().await?;
                    pairs.fetch_add(1, Ordering::Relaxed);
                }
                #[expect(unreachable_code, reason = "names the type of the error")]
                Ok::<(), Error>(())
            })
        })
        .collect();
    tokio::time::sleep(WARM_UP).await;
    let (before, began) = (pairs.load(Ordering::Relaxed), Instant::now());
    tokio::time::sleep(MEASURED).await;
    let count = pairs.load(Ordering::Relaxed) - before;
    println!("{:.0} pairs a second", count as f64 / began.elapsed().as_secs_f64());
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    Ok(())
}

#[cfg(feature = "metrics")]
fn install_recorder() {
    use leasehold::observe::BUCKETS;
    use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};

    let mut builder = PrometheusBuilder::new();
    for (name, buckets) in BUCKETS {
        let name = Matcher::Full((*name).to_owned());
        builder = builder.set_buckets_for_metric(name, buckets).expect("the buckets are not empty");
    }
    metrics::set_global_recorder(builder.build_recorder()).expect("the process has no other recorder");
}
