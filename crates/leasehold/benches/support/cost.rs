//! The cost of a run besides time: processor time, context switches and commands. These depend less on the load of the
//! machine than the time does.

use std::fs;
use std::ops::Sub;
use std::path::PathBuf;
use std::slice;

use leasehold_testkit::servers::RedisServer;

/// Counters since some start; the difference of two is the cost of the time between them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// Nanoseconds of processor time of all threads of this process; zero where it cannot be read.
    pub(crate) client_cpu: u64,
    /// Nanoseconds of processor time of the servers; zero where it cannot be read.
    pub(crate) server_cpu: u64,
    /// The number of times that a thread of this process went to sleep.
    pub(crate) sleeps: u64,
    /// Commands that the servers received, without those inside scripts.
    pub(crate) commands: u64,
}

impl Cost {
    pub(crate) fn now(server: &RedisServer) -> Self {
        Self::of(slice::from_ref(server))
    }

    /// Reads the counters of this process, and the sums of those of the servers.
    pub(crate) fn of(servers: &[RedisServer]) -> Self {
        Self {
            client_cpu: sum(std::process::id(), "schedstat", cpu),
            server_cpu: servers.iter().map(|server| sum(server.pid(), "schedstat", cpu)).sum(),
            sleeps: sum(std::process::id(), "status", sleeps),
            commands: servers.iter().map(commands).sum(),
        }
    }
}

impl Sub for Cost {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            client_cpu: self.client_cpu.saturating_sub(earlier.client_cpu),
            server_cpu: self.server_cpu.saturating_sub(earlier.server_cpu),
            sleeps: self.sleeps.saturating_sub(earlier.sleeps),
            commands: self.commands.saturating_sub(earlier.commands),
        }
    }
}

fn commands(server: &RedisServer) -> u64 {
    let stats = server.commandstats();
    ["evalsha", "eval", "ping"].iter().filter_map(|command| stats.get(*command)).sum()
}

/// The sum of a number over the threads of a process. Linux only: elsewhere there is nothing to read.
fn sum(process: u32, file: &str, number: impl Fn(&str) -> Option<u64>) -> u64 {
    let threads = fs::read_dir(PathBuf::from(format!("/proc/{process}/task")));
    let numbers = threads
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|thread| number(&fs::read_to_string(thread.path().join(file)).ok()?));
    numbers.sum()
}

fn cpu(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().next()?.parse().ok()
}

fn sleeps(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    line.trim().parse().ok()
}
