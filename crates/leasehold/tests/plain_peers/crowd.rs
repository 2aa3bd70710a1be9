//! Clients of both sides that count under one lock, without an atomic step, so that a missed exclusion loses a count.

use std::env;
use std::time::{Duration, Instant};

use leasehold::Lock;
use leasehold::lock::Plain;
use redis::aio::MultiplexedConnection;
use redis::cmd;
use tokio::task::JoinSet;

use crate::peer::ANSWER_WITHIN;
use crate::scene::{NAME, Scene};
use crate::support::ms;

/// The variable with the duration of a crowd, in seconds.
const SECONDS: &str = "LEASEHOLD_PLAIN_SECONDS";
/// The duration without it.
const BRIEFLY: Duration = ms(3_000);
/// The key of the count.
const COUNTER: &str = "counter";
/// The lease of the peers, which the whole crowd does not outlive.
const LEASE: u32 = 120_000;

const PEERS: usize = 2;
const CLIENTS: usize = 2;
const TASKS_OF_A_CLIENT: usize = 4;

/// The duration in which a poller is to get its share, and the one in which it may get none.
const SHARED: Duration = ms(5_000);
const UNSHARED: Duration = ms(2_000);
/// The time that Rust counts beyond the peers, so that no peer counts alone in its time.
const BEYOND: Duration = ms(500);

/// Who counts, and for how long.
struct Crowd {
    peers: usize,
    clients: usize,
    tasks_of_a_client: usize,
    lasts: Duration,
    /// The pause of pollers that the Rust clients let get ahead of them.
    share: Option<Duration>,
}

/// The counts of each side.
struct Counts {
    /// All counts of the peers.
    peers: u64,
    /// The counts of the peers before the end. A peer that waits at the end counts once more.
    peers_in_time: u64,
    rust: u64,
}

pub(crate) async fn a_crowd_loses_no_count(scene: Scene) -> String {
    let seconds = env::var(SECONDS).map(|seconds| Duration::from_secs(seconds.parse().unwrap()));
    let lasts = seconds.unwrap_or(BRIEFLY);
    let share = Some(scene.kind.poll);
    let crowd = Crowd { peers: PEERS, clients: CLIENTS, tasks_of_a_client: TASKS_OF_A_CLIENT, lasts, share };
    let counts = crowd.run(&scene).await;
    let seen = format!("{} + {} counts", counts.peers, counts.rust);
    assert!(counts.peers_in_time > 0 && counts.rust > 0, "one side never had the lock: {seen}");
    seen
}

pub(crate) async fn a_poller_gets_its_share_beside_busy_clients(scene: Scene) -> String {
    let crowd = |lasts, share| Crowd { peers: 1, clients: 2, tasks_of_a_client: 1, lasts, share };
    let unshared = crowd(UNSHARED, None).run(&scene).await;
    let shared = crowd(SHARED, Some(scene.kind.poll)).run(&scene).await;
    assert!(shared.peers_in_time > 0, "the poller got nothing in {SHARED:?}");
    format!("{}; without sharing {}", shared.share(SHARED), unshared.share(UNSHARED))
}

impl Counts {
    /// The grants in a second, of the peer beside those of Rust.
    fn share(&self, lasts: Duration) -> String {
        let in_a_second = |count: u64| count as f64 / lasts.as_secs_f64();
        format!("{:.1} beside {:.0} a second", in_a_second(self.peers_in_time), in_a_second(self.rust))
    }
}

impl Crowd {
    /// Lets everybody count, and compares the sum with the counter.
    async fn run(&self, scene: &Scene) -> Counts {
        let _ = scene.server.cli(&["DEL", COUNTER]);
        let command = format!("crowd {NAME} {LEASE} {} {COUNTER}", self.lasts.as_millis());
        let mut peers = Vec::new();
        for _ in 0..self.peers {
            peers.push(scene.peer().await);
        }
        let mut tasks = JoinSet::new();
        let connection = redis::Client::open(scene.server.url()).unwrap();
        for _ in 0..self.clients {
            let client = scene.client().await;
            let connection = connection.get_multiplexed_async_connection().await.unwrap();
            let lock = scene.lock(&client);
            let lock = self.share.map_or(lock.clone(), |poll| lock.share_with_pollers(poll));
            for _ in 0..self.tasks_of_a_client {
                tasks.spawn(count(lock.clone(), connection.clone(), self.lasts + BEYOND));
            }
        }
        for peer in &mut peers {
            peer.say(&command).await;
        }
        let rust = tasks.join_all().await.into_iter().sum();
        let mut counts = Counts { peers: 0, peers_in_time: 0, rust };
        for peer in &mut peers {
            let answer = peer.answer_within(self.lasts + ANSWER_WITHIN).await;
            let [all, in_time] = numbers(&answer);
            counts.peers += all;
            counts.peers_in_time += in_time;
        }
        assert_eq!(scene.server.cli(&["GET", COUNTER]), (counts.peers + counts.rust).to_string());
        counts
    }
}

/// Counts under the lock until the time is over.
async fn count(lock: Lock<Plain>, mut connection: MultiplexedConnection, lasts: Duration) -> u64 {
    let started = Instant::now();
    let mut counts = 0;
    while started.elapsed() < lasts {
        let guard = lock.lock().await.unwrap();
        let before: Option<u64> = cmd("GET").arg(COUNTER).query_async(&mut connection).await.unwrap();
        let after = before.unwrap_or_default() + 1;
        cmd("SET").arg(COUNTER).arg(after).exec_async(&mut connection).await.unwrap();
        guard.release().await.unwrap();
        counts += 1;
    }
    counts
}

/// Reads `ok 12 11`.
fn numbers(answer: &str) -> [u64; 2] {
    let words = answer.strip_prefix("ok ").unwrap_or_else(|| panic!("the crowd of a peer: {answer}"));
    let numbers: Vec<u64> = words.split(' ').map(|word| word.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}
