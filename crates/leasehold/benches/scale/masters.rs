//! Distinct locks over one and three masters: what a pair costs the client when its locks spread over more servers.

use std::slice;
use std::time::{Duration, Instant};

use leasehold::Client;
use leasehold_testkit::fleets::Cluster;
use leasehold_testkit::servers::RedisServer;

use crate::cost::Cost;

/// The tasks that lock at the same time, each its own name.
const TASKS: [u64; 2] = [64, 512];
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_secs(1);

enum Servers {
    Plain(RedisServer),
    Cluster(Cluster),
}

impl Servers {
    fn url(&self) -> String {
        match self {
            Self::Plain(server) => server.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    fn all(&self) -> &[RedisServer] {
        match self {
            Self::Plain(server) => slice::from_ref(server),
            Self::Cluster(cluster) => cluster.nodes(),
        }
    }
}

/// The figures of one round.
#[derive(Clone, Copy)]
struct Round {
    rate: f64,
    client_us: f64,
    server_us: f64,
    commands: f64,
}

pub(crate) async fn run() {
    let fleets = [
        ("plain server", Servers::Plain(RedisServer::start())),
        ("1 master", Servers::Cluster(Cluster::start(1, 0))),
        ("3 masters", Servers::Cluster(Cluster::start(3, 0))),
    ];
    for tasks in TASKS {
        let mut rounds = [const { Vec::new() }; 3];
        // The subjects alternate, so that the load of the machine meets all of them. The first turn warms up.
        for turn in 0..=ROUNDS {
            for ((_, servers), rounds) in fleets.iter().zip(&mut rounds) {
                let round = measure(servers, tasks).await;
                if turn > 0 {
                    rounds.push(round);
                }
            }
        }
        for ((name, _), rounds) in fleets.iter().zip(&rounds) {
            print(name, tasks, rounds);
        }
        let ratio = |of: fn(&Round) -> f64| {
            median(rounds[2].iter().zip(&rounds[1]).map(|(three, one)| of(three) / of(one)))
        };
        println!(
            "  3 masters beside 1, {tasks} tasks: {:.2} of the pairs per second, {:.2} of the client CPU per pair \
             (at most 1.10 is the goal)",
            ratio(|round| round.rate),
            ratio(|round| round.client_us),
        );
    }
}

async fn measure(servers: &Servers, tasks: u64) -> Round {
    let client = Client::connect(&servers.url()).await.unwrap();
    let before = Cost::of(servers.all());
    let began = Instant::now();
    let work = |task| {
        let lock = client.lock(format!("job:{task}").as_str());
        async move {
            let mut pairs = 0_u64;
            while began.elapsed() < ROUND {
                lock.lock().await.unwrap().release().await.unwrap();
                pairs += 1;
            }
            pairs
        }
    };
    let tasks: Vec<_> = (0..tasks).map(|task| tokio::spawn(work(task))).collect();
    let mut pairs = 0;
    for task in tasks {
        pairs += task.await.unwrap();
    }
    let (seconds, cost) = (began.elapsed().as_secs_f64(), Cost::of(servers.all()) - before);
    client.close().await;
    let pairs = pairs as f64;
    Round {
        rate: pairs / seconds,
        client_us: cost.client_cpu as f64 / 1e3 / pairs,
        server_us: cost.server_cpu as f64 / 1e3 / pairs,
        commands: cost.commands as f64 / pairs,
    }
}

fn print(name: &str, tasks: u64, rounds: &[Round]) {
    let rates = || rounds.iter().map(|round| round.rate);
    println!(
        "  {name}, {tasks} tasks: {:.0} pairs per second ({:.0}..{:.0}), client {:.1} us, servers {:.1} us and {:.2} \
         commands per pair",
        median(rates()),
        rates().fold(f64::INFINITY, f64::min),
        rates().fold(0.0, f64::max),
        median(rounds.iter().map(|round| round.client_us)),
        median(rounds.iter().map(|round| round.server_us)),
        median(rounds.iter().map(|round| round.commands)),
    );
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
