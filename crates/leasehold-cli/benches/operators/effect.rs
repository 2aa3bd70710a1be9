//! The rate of a hot lock, alone and while operators look at it.

use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::Client;
use leasehold_testkit::servers::RedisServer;
use tokio::runtime::Runtime;

use crate::page::Viewer;
use crate::usage::{leasehold, timed};

const TASKS: usize = 64;
const WINDOW: Duration = Duration::from_secs(3);
const ROUNDS: usize = 5;
/// 20 times a second.
const EVERY: Duration = Duration::from_millis(50);

/// Compares rates with and without a look, in turns.
pub(crate) fn run(runtime: &Runtime) {
    let server = RedisServer::start();
    let client = runtime.block_on(Client::connect(&server.url())).unwrap();
    let (holds, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (lock, holds, ends) = (client.lock("hot"), Arc::clone(&holds), Arc::clone(&ends));
            runtime.spawn(async move {
                while !ends.load(Ordering::Relaxed) {
                    drop(lock.lock().await.unwrap());
                    holds.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let rate = || {
        let (before, began) = (holds.load(Ordering::Relaxed), Instant::now());
        thread::sleep(WINDOW);
        (holds.load(Ordering::Relaxed) - before) as f64 / began.elapsed().as_secs_f64()
    };
    rate();
    for (what, look) in
        [("show, 20 a second", show as fn(&RedisServer) -> Look), ("one page", page), ("watch", watch)]
    {
        let mut ratios: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let alone = rate();
                let looks = look(&server);
                let beside = rate();
                drop(looks);
                beside / alone
            })
            .collect();
        ratios.sort_by(f64::total_cmp);
        println!(
            "  {what:18} rate {:.3} of that alone ({:.3} to {:.3})",
            ratios[ROUNDS / 2],
            ratios[0],
            ratios[ROUNDS - 1]
        );
    }
    ends.store(true, Ordering::Relaxed);
    tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
    println!("  {:.0} holds in all", holds.load(Ordering::Relaxed));
}

/// Somebody who looks, until it is dropped.
enum Look {
    Thread(Arc<AtomicBool>),
    Page(#[expect(dead_code, reason = "it ends when it is dropped")] Viewer),
    Program(Child),
}

impl Drop for Look {
    fn drop(&mut self) {
        match self {
            Self::Thread(ends) => ends.store(true, Ordering::Relaxed),
            Self::Program(child) => {
                let _ = child.kill();
                let _ = child.wait();
            }
            Self::Page(_) => {}
        }
    }
}

fn show(server: &RedisServer) -> Look {
    let ends = Arc::new(AtomicBool::new(false));
    let (url, over) = (server.url(), Arc::clone(&ends));
    thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            let began = Instant::now();
            let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_leasehold"));
            command.args(["show", "hot", "--url", &url]).stdout(Stdio::null());
            let _ = command.status();
            thread::sleep(EVERY.saturating_sub(began.elapsed()));
        }
    });
    let _ = timed(server, &["show", "hot"]);
    Look::Thread(ends)
}

fn page(server: &RedisServer) -> Look {
    Look::Page(Viewer::start(server, 1))
}

fn watch(server: &RedisServer) -> Look {
    let mut command = leasehold(server, &["watch", "hot", "--every", "100ms"]);
    Look::Program(command.stdout(Stdio::null()).spawn().unwrap())
}
