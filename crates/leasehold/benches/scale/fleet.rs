//! Several processes that want one lock all the time: how fair it is to them.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leasehold::Client;
use leasehold_testkit::servers::RedisServer;

use crate::cost::Cost;
use crate::queue::{Queue, pause};

/// The variable with the server's URL, which makes this program a worker.
pub(crate) const WORKER: &str = "LEASEHOLD_SCALE_WORKER";
/// The variable with the time at which the workers begin, in unix milliseconds, and the section in microseconds.
const TERMS: &str = "LEASEHOLD_SCALE_TERMS";

const PROCESSES: usize = 4;
const TASKS: usize = 8;
const RUN: Duration = Duration::from_secs(6);
const SECTIONS: [Duration; 2] = [Duration::from_millis(1), Duration::ZERO];

/// Runs one worker, and prints its grants and its longest wait in microseconds.
pub(crate) async fn work(url: &str) {
    let terms = std::env::var(TERMS).unwrap();
    let (begin, section) = terms.split_once(' ').unwrap();
    let (begin, section) = (begin.parse().unwrap(), Duration::from_micros(section.parse().unwrap()));
    let client = Client::connect(url).await.unwrap();
    pause(Duration::from_millis(begin).saturating_sub(unix_time())).await;
    let began = Instant::now();
    let task = |client: Client| async move {
        let (mut grants, mut longest) = (0_u64, Duration::ZERO);
        while began.elapsed() < RUN {
            let asked = Instant::now();
            let mut waited = Duration::ZERO;
            let stay = async {
                waited = asked.elapsed();
                if !section.is_zero() {
                    pause(section).await;
                }
            };
            Queue::Lock.section(&client, stay).await.unwrap();
            grants += u64::from(began.elapsed() < RUN);
            longest = longest.max(waited);
        }
        (grants, longest)
    };
    let tasks: Vec<_> = (0..TASKS).map(|_| tokio::spawn(task(client.clone()))).collect();
    let (mut grants, mut longest) = (0, Duration::ZERO);
    for task in tasks {
        let one = task.await.unwrap();
        grants += one.0;
        longest = longest.max(one.1);
    }
    println!("{grants} {}", longest.as_micros());
}

pub(crate) async fn run() {
    for section in SECTIONS {
        let server = RedisServer::start();
        let begin = unix_time() + Duration::from_secs(1);
        let worker = |_| {
            let mut worker = Command::new(std::env::current_exe().unwrap());
            worker.env(WORKER, server.url());
            worker.env(TERMS, format!("{} {}", begin.as_millis(), section.as_micros()));
            worker.stdout(Stdio::piped()).spawn().unwrap()
        };
        let workers: Vec<_> = (0..PROCESSES).map(worker).collect();
        pause(begin.saturating_sub(unix_time())).await;
        let before = Cost::now(&server);
        let outputs = workers.into_iter().map(|worker| worker.wait_with_output().unwrap());
        let reports: Vec<(u64, u64)> = outputs
            .map(|output| {
                assert!(output.status.success(), "a worker failed: {}", output.status);
                let report = String::from_utf8(output.stdout).unwrap();
                let (grants, longest) = report.trim().split_once(' ').unwrap();
                (grants.parse().unwrap(), longest.parse().unwrap())
            })
            .collect();
        print(section, &reports, Cost::now(&server) - before);
    }
}

fn print(section: Duration, reports: &[(u64, u64)], cost: Cost) {
    let grants: Vec<f64> = reports.iter().map(|(grants, _)| *grants as f64).collect();
    let total: f64 = grants.iter().sum();
    let jain =
        total.powi(2) / (reports.len() as f64 * grants.iter().map(|grants| grants.powi(2)).sum::<f64>());
    let longest = reports.iter().map(|(_, longest)| *longest).max().unwrap_or_default() as f64 / 1e3;
    // The time between two grants of one task when each task has as many.
    let fair = RUN.as_secs_f64() * 1e3 * (PROCESSES * TASKS) as f64 / total;
    println!(
        "  {PROCESSES} processes of {TASKS} tasks on a lock, sections of {section:?}: {:.0} grants per second, {grants:?} \
         by process, Jain's index {jain:.3}, longest wait {longest:.0} ms, which is {:.1} of the fair share, {fair:.1} \
         ms; {:.2} commands per grant, server {:.0} %",
        total / RUN.as_secs_f64(),
        longest / fair,
        cost.commands as f64 / total,
        cost.server_cpu as f64 / RUN.as_nanos() as f64 * 100.0,
    );
}

fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}
