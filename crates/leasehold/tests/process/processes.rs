//! Several processes: an exact count over two of them, and the death of one.

use std::convert::Infallible;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::select_all;
use leasehold::election::OnLost;
use leasehold::error::{AcquireErrorKind, InspectErrorKind, ReleaseErrorKind};
use leasehold::{Client, Guard, LostReason};
use leasehold_testkit::lateness::Lateness;
use leasehold_testkit::servers::RedisServer;

use crate::child::{self, ChildProcess, assert_passes};
use crate::support::{connect, count, eventually, is_free, ms, pttl, run_command, soon};

const SERVER: &str = "LEASEHOLD_TEST_SERVER";
const FILE: &str = "LEASEHOLD_TEST_FILE";

const CLIENTS_PER_PROCESS: usize = 2;
const TASKS_PER_CLIENT: usize = 4;
const SECTIONS_PER_TASK: u64 = 100;
const TASKS_OF_A_CROWD: usize = 64;
/// The most holds of a process whose tasks hand off, while one task of another process waits.
const HOLDS_BEFORE_A_TURN: u64 = 12;

/// Returns the command that starts this program again, for one test, in a part and with a server.
fn play(test: &str, part: &str, server: &RedisServer) -> Command {
    let mut command = child::again(&format!("processes::{test}"), part);
    command.env(SERVER, server.url());
    command
}

/// The URL of the server, if this process plays a part.
fn part() -> Option<String> {
    child::is_child().then(|| std::env::var(SERVER).unwrap())
}

/// Sends a line to the parent process.
#[allow(clippy::print_stdout, reason = "the pipe to the parent")]
fn say(text: &str) {
    println!("{text}");
}

/// Adds one in two steps, which lose counts without exclusion.
async fn add_one(file: &Path) {
    let before: u64 = std::fs::read_to_string(file).unwrap().parse().unwrap();
    tokio::task::yield_now().await;
    std::fs::write(file, (before + 1).to_string()).unwrap();
}

/// The work of one process: some clients, some tasks each, some critical sections each.
async fn count_in_tasks(url: &str, file: &Path) {
    let mut tasks = Vec::new();
    for _ in 0..CLIENTS_PER_PROCESS {
        let client = Client::connect(url).await.unwrap();
        for _ in 0..TASKS_PER_CLIENT {
            let (lock, file) = (client.lock("counter"), file.to_owned());
            tasks.push(tokio::spawn(async move {
                for _ in 0..SECTIONS_PER_TASK {
                    let guard = lock.lock().await.unwrap();
                    add_one(&file).await;
                    assert!(guard.is_held(), "a section of microseconds fits into a lease of 30 s");
                    drop(guard);
                }
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_tasks_over_four_clients_in_two_processes_count_exactly() {
    if let Some(url) = part() {
        let file = std::env::var(FILE).unwrap();
        return count_in_tasks(&url, Path::new(&file)).await;
    }
    let server = RedisServer::start();
    let file = std::env::temp_dir().join(format!("leasehold-count-{}", std::process::id()));
    std::fs::write(&file, "0").unwrap();
    let name = "sixteen_tasks_over_four_clients_in_two_processes_count_exactly";
    let mut processes: Vec<ChildProcess> = (0..2)
        .map(|_| {
            let mut command = play(name, "counter", &server);
            command.env(FILE, &file);
            ChildProcess::start(command)
        })
        .collect();
    for process in &mut processes {
        assert_passes(process);
    }
    let tasks = processes.len() * CLIENTS_PER_PROCESS * TASKS_PER_CLIENT;
    assert_eq!(tasks, 16);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "1600");
    std::fs::remove_file(&file).unwrap();
    eventually("the last release", || is_free(&server, "counter")).await;
}

/// The work of a process whose tasks hand a lock over inside the process, until the process is killed.
async fn hand_off_without_end(url: &str) {
    let client = Client::connect(url).await.unwrap();
    let first = client.lock("turn").lock().await.unwrap();
    let tasks: Vec<_> = (0..TASKS_OF_A_CROWD)
        .map(|_| {
            let lock = client.lock("turn");
            tokio::spawn(async move {
                loop {
                    let guard = lock.lock().await.unwrap();
                    tokio::task::yield_now().await;
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    first.release().await.unwrap();
    say("the tasks hand off");
    let (ended, ..) = select_all(tasks).await;
    ended.unwrap();
}

#[tokio::test]
async fn a_process_that_hands_off_leaves_another_process_its_turn() {
    if let Some(url) = part() {
        return hand_off_without_end(&url).await;
    }
    let server = RedisServer::start();
    let name = "a_process_that_hands_off_leaves_another_process_its_turn";
    let mut crowd = ChildProcess::start(play(name, "crowd", &server));
    crowd.wait_for("the tasks hand off");
    let lock = connect(&server).await.lock("turn");
    // Each hold of the server sets one field.
    let holds = || server.commandstats().get("hset").copied().unwrap_or_default();
    let (mut longest, mut most) = (Duration::ZERO, 0);
    for _ in 0..50 {
        let (before, requested) = (holds(), Instant::now());
        let guard = soon("a turn", lock.lock()).await.unwrap();
        longest = longest.max(requested.elapsed());
        most = most.max(holds() - before - 1);
        guard.release().await.unwrap();
    }
    println!("waits of at most {longest:?}, and of {most} holds of the other process");
    assert!(most <= HOLDS_BEFORE_A_TURN, "{most} holds of the other process before a turn");
}

#[tokio::test]
async fn a_killed_holder_blocks_others_for_at_most_one_lease() {
    const LEASE: Duration = ms(900);
    if let Some(url) = part() {
        let client = Client::connect(&url).await.unwrap();
        let guard = client.lock("job").watchdog(LEASE).lock().await.unwrap();
        say("it is held");
        guard.lost().await;
        return;
    }
    let server = RedisServer::start();
    let name = "a_killed_holder_blocks_others_for_at_most_one_lease";
    let mut holder = ChildProcess::start(play(name, "holder", &server));
    holder.wait_for("it is held");
    // The holder is alive and renews, since the time to live has risen twice.
    for _ in 0..2 {
        let before = pttl(&server, "job");
        let mut last = before;
        eventually("a renewal", || {
            let now = pttl(&server, "job");
            let rose = now > last;
            last = now;
            rose
        })
        .await;
    }
    let waiter = connect(&server).await;
    assert!(waiter.lock("job").try_lock().await.unwrap().is_none());

    let machine = Lateness::start();
    holder.0.kill().unwrap();
    holder.0.wait().unwrap();
    let killed = Instant::now();
    let left = pttl(&server, "job");
    assert!((1..=900).contains(&left), "{left} ms are left of a lease of {LEASE:?}");
    let guard = soon("the lock", waiter.lock("job").lock()).await.unwrap();
    // A waiter tries up to 21 ms after the end of the lease. The jitter keeps a fleet from trying in one instant.
    machine.assert_within("the lock of a killed holder", LEASE + ms(21), killed.elapsed());
    assert_eq!(count(&server, "job"), 1);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_process_that_exits_normally_leaves_nothing_locked() {
    if let Some(url) = part() {
        let client = Client::connect(&url).await.unwrap();
        let guard = client.lock("job").lock().await.unwrap();
        say("it is held");
        assert_eq!(client.close().await.released, 1);
        drop(guard);
        return;
    }
    let server = RedisServer::start();
    let name = "a_process_that_exits_normally_leaves_nothing_locked";
    let mut holder = ChildProcess::start(play(name, "holder", &server));
    holder.wait_for("it is held");
    assert!(holder.0.wait().unwrap().success());
    assert!(is_free(&server, "job"));
}

/// Checks that a client and a guard that a fork has copied refuse each call, or report a lost hold, at the first poll.
fn check_the_copies(client: &Client, guard: Guard) {
    let at_once = "a forked process is refused at the first poll";
    assert!(!guard.is_held());
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert_eq!(guard.lost().now_or_never().expect(at_once), LostReason::Closed);
    let acquired = client.lock("other").lock().now_or_never().expect(at_once);
    assert_eq!(acquired.unwrap_err(), AcquireErrorKind::Forked);
    let inspected = client.lock("job").is_locked().now_or_never().expect(at_once);
    assert_eq!(inspected.unwrap_err().kind, InspectErrorKind::Forked);
    let released = guard.release().now_or_never().expect(at_once);
    assert_eq!(released.unwrap_err().kind, ReleaseErrorKind::Forked);
}

#[tokio::test]
async fn a_fork_of_a_holder_holds_nothing_and_releases_nothing() {
    if let Some(url) = part() {
        let client = Client::connect(&url).await.unwrap();
        let (guard, kept) =
            (client.lock("job").lock().await.unwrap(), client.lock("kept").lock().await.unwrap());
        assert!(guard.is_held());
        // Forks, and ends the parent, so the rest runs in a child with this thread alone.
        nix::unistd::daemon(true, true).unwrap();
        check_the_copies(&client, guard);
        drop((kept, client));
        say("the fork holds nothing");
        std::process::exit(0);
    }
    let server = RedisServer::start();
    let mut holder =
        ChildProcess::start(play("a_fork_of_a_holder_holds_nothing_and_releases_nothing", "holder", &server));
    holder.wait_for("the fork holds nothing");
    assert_eq!((count(&server, "job"), count(&server, "kept")), (1, 1));
}

/// A body that blocks its thread cannot be dropped, so only the end of its process stops it.
#[tokio::test]
async fn a_leader_that_blocks_its_thread_exits_at_the_loss() {
    if let Some(url) = part() {
        let client = Client::connect(&url).await.unwrap();
        let election = client.election("job").watchdog(ms(600)).on_lost(OnLost::Exit(77));
        let led = election.lead(async |term| {
            say("leads");
            while term.is_valid() || !term.is_asked() {
                std::thread::yield_now();
            }
            Ok::<(), Infallible>(())
        });
        led.await.unwrap();
        return;
    }
    let server = RedisServer::start();
    let mut leader =
        ChildProcess::start(play("a_leader_that_blocks_its_thread_exits_at_the_loss", "leader", &server));
    leader.wait_for("leads");
    run_command(&server, &["DEL", "job"]);
    assert_eq!(leader.0.wait().unwrap().code(), Some(77));
}
