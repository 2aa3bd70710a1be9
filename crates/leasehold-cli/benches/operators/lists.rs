//! The times of `leasehold list`.

use std::thread;
use std::time::Duration;

use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::eventually;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::runtime::Runtime;

use crate::usage::{clients, leasehold, timed};

const CLIENTS: usize = 20;
const ROUNDS: usize = 5;

/// Lists 10,000 and 100,000 holds of 20 clients.
pub(crate) fn run(runtime: &Runtime) {
    for holds in [500, 5_000] {
        let server = RedisServer::start();
        let kept = clients(runtime, &server, (CLIENTS, holds));
        println!("{CLIENTS} clients, {} holds", CLIENTS * holds);
        for arguments in [&["list"][..], &["list", "--all"], &["show", "order:7:42"], &["clients"]] {
            let mut runs: Vec<_> = (0..ROUNDS).map(|_| timed(&server, arguments)).collect();
            runs.sort_by_key(|(took, ..)| *took);
            let (took, load, text) = &runs[ROUNDS / 2];
            println!(
                "  {:14} {took:.2?}, {load:.2?} of the server, {} lines",
                arguments.join(" "),
                text.lines().count()
            );
        }
        drop(kept);
    }
}

/// Lists beside a client that stands still.
pub(crate) fn silent(runtime: &Runtime) {
    let server = RedisServer::start();
    let kept = clients(runtime, &server, (3, 10));
    let mut run = leasehold(&server, &["run", "--lease", "3s"]);
    let mut stopped = run.args(["frozen", "--", "sleep", "60"]).spawn().unwrap();
    let seen = || server.cli(&["PUBSUB", "NUMSUB", "leasehold_clients:{}"]).ends_with('4');
    eventually(Duration::from_secs(60), "the client to be seen", seen);
    let pid = Pid::from_raw(stopped.id().cast_signed());
    kill(pid, Signal::SIGSTOP).unwrap();
    let (took, _, text) = timed(&server, &["list"]);
    println!("  list           {took:.2?}: {}", text.lines().last().unwrap_or_default());
    kill(pid, Signal::SIGCONT).unwrap();
    kill(pid, Signal::SIGTERM).unwrap();
    drop((stopped.wait(), kept));
    thread::yield_now();
}
