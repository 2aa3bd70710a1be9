//! Elections: how soon the next leader works, how soon a loss is told, and what leaders, candidates and observers cost.

use std::convert::Infallible;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::election::{Election, State};
use leasehold::{Client, Term};
use leasehold_testkit::proxy::Proxy;
use leasehold_testkit::servers::RedisServer;
use tokio::time::sleep;

use crate::cost::Cost;

/// The variable that has the server of a process that leads until it is killed.
pub(crate) const LEADER: &str = "LEASEHOLD_SCALE_LEADER";
/// The elections of that process.
const KILLED: usize = 20;
const RESIGNATIONS: u32 = 300;
const TRANSFERS: u32 = 300;
const LOST: usize = 50;
const OBSERVERS: usize = 1_000;
const ROLLS: u32 = 100;

/// Leads until it is killed.
pub(crate) async fn lead_for_good(url: &str) {
    let client = Client::connect(url).await.unwrap();
    let _terms: Vec<Term> = leading(&client).await;
    println!("leads");
    std::future::pending::<()>().await;
}

async fn leading(client: &Client) -> Vec<Term> {
    let terms = (0..KILLED).map(|number| {
        let election = client.election(format!("killed:{number}"));
        async move { election.campaign().await.unwrap() }
    });
    join_all(terms).await
}

pub(crate) async fn run() {
    resignations().await;
    transfers().await;
    kill().await;
    losses().await;
    idle().await;
    observers().await;
    rolls().await;
}

async fn candidate(server: &RedisServer, name: &str) -> Election {
    let client = Client::builder().visible(false).connect(&server.url()).await.unwrap();
    client.election("job").candidate(name)
}

/// Prints the median, the 99th percentile and the longest of some times.
fn print(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    println!(
        "{what}: median {:.2?}, p99 {:.2?}, longest {:.2?}, of {}",
        at(50),
        at(99),
        at(100),
        times.len()
    );
}

async fn resignations() {
    let server = RedisServer::start();
    let pair = [candidate(&server, "a").await, candidate(&server, "b").await];
    let mut term = pair[0].campaign().await.unwrap();
    let mut times = Vec::new();
    for round in 1..=RESIGNATIONS {
        let next = pair[(round % 2) as usize].clone();
        let waiting = tokio::spawn(async move {
            let term = next.campaign().await.unwrap();
            (term, Instant::now())
        });
        sleep(Duration::from_millis(10)).await;
        let resigned = Instant::now();
        term.resign().await.unwrap();
        let led;
        (term, led) = waiting.await.unwrap();
        times.push(led - resigned);
    }
    print("from a resignation to the next leader's body", times);
}

async fn transfers() {
    let server = RedisServer::start();
    let pair = [candidate(&server, "a").await, candidate(&server, "b").await];
    let mut term = pair[0].campaign().await.unwrap();
    let (mut times, mut trips, mut commands) = (Vec::new(), Vec::new(), 0);
    for round in 1..=TRANSFERS {
        let (next, to) = (pair[(round % 2) as usize].clone(), if round % 2 == 0 { "a" } else { "b" });
        let waiting = tokio::spawn(async move {
            let term = next.campaign().await.unwrap();
            (term, Instant::now())
        });
        sleep(Duration::from_millis(10)).await;
        let before = Cost::now(&server);
        let asked = Instant::now();
        term.transfer_to(to).await.unwrap();
        let led;
        (term, led) = waiting.await.unwrap();
        times.push(led - asked);
        commands += (Cost::now(&server) - before).commands;
        let asked = Instant::now();
        pair[0].leader().await.unwrap();
        trips.push(asked.elapsed());
    }
    print("from a transfer to the next leader's body", times);
    print("a bare question, for comparison", trips);
    println!("calls of a transfer and the terms around it: {:.1}", commands as f64 / f64::from(TRANSFERS));
}

async fn kill() {
    let server = RedisServer::start();
    let mut leader = Command::new(std::env::current_exe().unwrap());
    let mut leader = leader.env(LEADER, server.url()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(leader.stdout.as_mut().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("leads")));
    let client = Client::builder().visible(false).connect(&server.url()).await.unwrap();
    let waiting: Vec<_> = (0..KILLED)
        .map(|number| {
            let election = client.election(format!("killed:{number}"));
            tokio::spawn(async move {
                let _term = election.campaign().await.unwrap();
                Instant::now()
            })
        })
        .collect();
    sleep(Duration::from_millis(4_321)).await;
    let killed = Instant::now();
    leader.kill().unwrap();
    leader.wait().unwrap();
    let led = join_all(waiting).await.into_iter().map(|led| led.unwrap() - killed).collect();
    print("from kill -9 to the next leader, lease of 10 s", led);
}

async fn losses() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let client = Client::builder().visible(false).timeout(Duration::from_millis(300));
    let client = client.connect(&proxy.url()).await.unwrap();
    let terms = (0..LOST).map(|number| {
        let election = client.election(format!("lost:{number}")).watchdog(Duration::from_secs(1));
        async move { election.campaign().await.unwrap() }
    });
    let terms = join_all(terms).await;
    let early = Arc::new(AtomicUsize::new(0));
    proxy.black_hole(true);
    let told = terms.into_iter().map(|term| {
        let early = Arc::clone(&early);
        async move {
            let mut deadline = Instant::now() + term.remaining();
            let told = async {
                term.lost().await;
                Instant::now()
            };
            tokio::pin!(told);
            // A renewal that was on its way still counts.
            let told = loop {
                tokio::select! {
                    told = &mut told => break told,
                    () = sleep(Duration::from_millis(5)) => {
                        if term.is_valid() {
                            deadline = deadline.max(Instant::now() + term.remaining());
                        }
                    }
                }
            };
            early.fetch_add(usize::from(term.is_valid()), Ordering::SeqCst);
            told.saturating_duration_since(deadline)
        }
    });
    print("from the end of a validity to lost()", join_all(told).await);
    println!("told while the term was valid: {}", early.load(Ordering::SeqCst));
}

async fn idle() {
    let window = Duration::from_secs(15);
    let server = RedisServer::start();
    let leader = candidate(&server, "a").await;
    let _term = leader.campaign().await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let before = Cost::now(&server);
    sleep(window).await;
    let alone = (Cost::now(&server) - before).commands;
    let waiting = candidate(&server, "b").await;
    let waiting = tokio::spawn(async move { waiting.campaign().await.map(drop) });
    sleep(Duration::from_secs(1)).await;
    let before = Cost::now(&server);
    sleep(window).await;
    let both = (Cost::now(&server) - before).commands;
    waiting.abort();
    println!("calls in {window:?}: an idle leader {alone}, a candidate {}", both.saturating_sub(alone));
}

async fn observers() {
    let server = RedisServer::start();
    let leader = candidate(&server, "a").await.watchdog(Duration::from_secs(10));
    let term = leader.campaign().await.unwrap();
    let mut elections = Vec::new();
    for _ in 0..OBSERVERS / 50 {
        elections.extend(join_all((0..50).map(|_| candidate(&server, "observer"))).await);
    }
    let mut views: Vec<_> = elections.iter().map(Election::observe).collect();
    let sees = |led: bool| move |state: &State| matches!(state, State::Leader(_)) == led;
    let until = async |views: &mut Vec<leasehold::election::Observer>, led: bool| {
        let told = views.iter_mut().map(|view| async move {
            while !sees(led)(&view.current()) {
                view.changed().await.unwrap();
            }
            Instant::now()
        });
        join_all(told).await
    };
    until(&mut views, true).await;
    let window = Duration::from_secs(20);
    let before = Cost::now(&server);
    sleep(window).await;
    let calls = (Cost::now(&server) - before).commands;
    println!(
        "{OBSERVERS} observers, each in a client: {:.0} calls a second",
        calls as f64 / window.as_secs_f64()
    );
    let resigned = Instant::now();
    term.resign().await.unwrap();
    let told = until(&mut views, false).await.into_iter().map(|told| told - resigned).collect();
    print("from a resignation to an observer", told);
    // A leader of which nobody hears any more.
    let proxy = Proxy::start(server.port());
    let client = Client::builder().visible(false).connect(&proxy.url()).await.unwrap();
    let term = client.election("job").watchdog(Duration::from_secs(3)).campaign().await.unwrap();
    until(&mut views, true).await;
    proxy.black_hole(true);
    let ends = Instant::now() + term.remaining();
    let told = until(&mut views, false).await;
    let told = told.into_iter().map(|told| told.saturating_duration_since(ends)).collect();
    print("from the end of a dead leader's lease to an observer", told);
}

async fn rolls() {
    let server = RedisServer::start();
    let bodies = Arc::new(AtomicUsize::new(0));
    let (mut gaps, mut overlaps) = (Vec::new(), 0);
    let start = async |name: &str| {
        let election = candidate(&server, name).await.grace(Duration::from_secs(5));
        let (stopper, counted) = (election.stopper(), Arc::clone(&bodies));
        let leading = tokio::spawn(election.lead(async move |term| {
            counted.fetch_add(1, Ordering::SeqCst);
            term.asked().await;
            counted.fetch_sub(1, Ordering::SeqCst);
            Ok::<(), Infallible>(())
        }));
        (stopper, leading)
    };
    let mut copies = [start("0").await, start("1").await, start("2").await];
    for _ in 0..ROLLS {
        for (place, copy) in copies.iter_mut().enumerate() {
            let stopping = {
                let (stopper, leading) = copy;
                async move {
                    stopper.stop().await;
                    leading.await.unwrap().unwrap();
                }
            };
            let watching = async {
                let mut without = Duration::ZERO;
                let mut at = Instant::now();
                for _ in 0..40 {
                    tokio::task::yield_now().await;
                    sleep(Duration::from_micros(500)).await;
                    match bodies.load(Ordering::SeqCst) {
                        0 => without += at.elapsed(),
                        1 => {}
                        _ => overlaps += 1,
                    }
                    at = Instant::now();
                }
                without
            };
            let ((), without) = tokio::join!(stopping, watching);
            gaps.push(without);
            *copy = start(&place.to_string()).await;
        }
    }
    let rolls = gaps.chunks(3).map(|gaps| gaps.iter().sum()).collect();
    print("time without a leader in a rolling restart of 3 copies", rolls);
    println!("samples with two bodies: {overlaps}");
}
