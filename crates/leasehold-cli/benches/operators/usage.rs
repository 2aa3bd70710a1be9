//! The program, and the processor time of processes.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use leasehold::{Client, Guard};
use leasehold_testkit::servers::RedisServer;
use tokio::runtime::Runtime;

/// Returns the command with its server.
pub(crate) fn leasehold(server: &RedisServer, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    command.args(arguments).args(["--url", &server.url()]).stdin(Stdio::null());
    command
}

/// Runs the command. Returns its time, the processor time of the server meanwhile, and its output.
pub(crate) fn timed(server: &RedisServer, arguments: &[&str]) -> (Duration, Duration, String) {
    let (began, before) = (Instant::now(), processor_time(server.pid()));
    let output = leasehold(server, arguments).output().unwrap();
    let took = began.elapsed();
    let text = String::from_utf8(output.stdout).unwrap();
    (took, processor_time(server.pid()).saturating_sub(before), text)
}

/// Returns the processor time of all threads of a process.
pub(crate) fn processor_time(pid: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |thread: fs::DirEntry| -> Option<u64> {
        fs::read_to_string(thread.path().join("schedstat")).ok()?.split(' ').next()?.parse().ok()
    };
    Duration::from_nanos(threads.flatten().filter_map(of).sum())
}

/// Connects clients with this many holds each.
pub(crate) fn clients(
    runtime: &Runtime,
    server: &RedisServer,
    (clients, holds): (usize, usize),
) -> Vec<(Client, Vec<Guard>)> {
    let of = |client: usize| async move {
        let builder = Client::builder().client_name(&format!("client-{client}"));
        let connected = builder.connect(&server.url()).await.unwrap();
        let mut guards = Vec::with_capacity(holds);
        for begin in (0..holds).step_by(1000) {
            let locks =
                (begin..holds.min(begin + 1000)).map(|hold| connected.lock(format!("order:{client}:{hold}")));
            let acquires = locks.map(|lock| async move { lock.lock().await.unwrap() });
            guards.extend(futures_util::future::join_all(acquires).await);
        }
        // A long fixed lease makes the client visible at once.
        guards.push(
            connected.lock(format!("seen:{client}")).lease(Duration::from_secs(3600)).lock().await.unwrap(),
        );
        (connected, guards)
    };
    let mut made = Vec::new();
    for client in 0..clients {
        made.push(runtime.block_on(of(client)));
    }
    let listening = || {
        let numsub = server.cli(&["PUBSUB", "NUMSUB", "leasehold_clients:{}"]);
        numsub.ends_with(&clients.to_string())
    };
    leasehold_testkit::wait::eventually(Duration::from_secs(60), "the clients to be seen", listening);
    made
}
