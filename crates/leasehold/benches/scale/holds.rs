//! Many holds of one client while the server restarts and keeps its data.

use std::time::{Duration, Instant};

use leasehold::{Client, Guard, ReleaseOutcome};
use leasehold_testkit::servers::RedisServer;
use tokio::task::JoinSet;

use crate::queue::pause;

const HOLDS: usize = 50_000;
/// The number of acquires at once.
const AT_ONCE: usize = 1_000;
/// The time after the first acquire at which the server goes down, when the first renewals are due.
const UP: Duration = Duration::from_secs(10);
const DOWN: Duration = Duration::from_secs(1);
/// The time after the restart in which every hold is renewed or lost: the default lease, and some more.
const SETTLED: Duration = Duration::from_secs(35);

pub(crate) async fn run() {
    let mut server = RedisServer::with(&["--appendonly", "yes"]);
    let client = Client::connect(&server.url()).await.unwrap();
    let began = Instant::now();
    let mut guards: Vec<Guard> = Vec::with_capacity(HOLDS);
    for names in (0..HOLDS).collect::<Vec<_>>().chunks(AT_ONCE) {
        let mut acquires = JoinSet::new();
        for name in names {
            let lock = client.lock(format!("hold:{name}"));
            acquires.spawn(async move { lock.lock().await.unwrap() });
        }
        guards.extend(acquires.join_all().await);
    }
    println!("  {HOLDS} holds in {:.1?}", began.elapsed());
    pause(UP.saturating_sub(began.elapsed())).await;
    server.kill();
    pause(DOWN).await;
    server.restart();
    let began = Instant::now();
    while began.elapsed() < SETTLED {
        pause(Duration::from_secs(5)).await;
        let lost = guards.iter().filter(|guard| !guard.is_held()).count();
        println!("  {:.0} s after the restart: {lost} lost", began.elapsed().as_secs_f64());
    }
    let began = Instant::now();
    let releases: JoinSet<_> = guards.into_iter().map(Guard::release).collect();
    let (mut released, mut gone, mut unconfirmed) = (0, 0, 0);
    for outcome in releases.join_all().await {
        match outcome {
            Ok(ReleaseOutcome::Released) => released += 1,
            Ok(ReleaseOutcome::NotHeld) => gone += 1,
            Err(_) => unconfirmed += 1,
        }
    }
    let took = began.elapsed();
    println!("  {released} released, {gone} were gone, {unconfirmed} unconfirmed, in {took:.1?}");
}
