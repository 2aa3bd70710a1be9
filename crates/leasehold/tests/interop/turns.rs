//! Turns: Java waits beside many Rust tasks, whose client hands its holds from task to task.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold::Lock;
use leasehold::lock::WireOwner;
use leasehold_testkit::servers::Monitor;

use crate::harness::{Harness, on_each_server};
use crate::lock_commands::LockCommands;
use crate::support::{channel, eventually, soon};

on_each_server! {
    java_gets_its_turns_beside_sixty_four_rust_tasks,
    java_gets_its_turns_beside_rust_tasks_that_hand_nothing_off,
}

const TASKS: usize = 64;
const TURNS: usize = 50;
/// The most releases of the Rust client that a listening Java client hears before nine of ten of its turns. A busy machine
/// may stop the Java process for longer than the Rust client stands back.
const HEARD_MAX: usize = 6;

/// The grants of the Rust tasks.
#[derive(Default)]
struct Grants {
    all: usize,
    /// The grants of the server, without those that passed on inside the client.
    of_server: usize,
    last: Option<WireOwner>,
}

impl Grants {
    fn note(&mut self, wire: WireOwner) {
        self.all += 1;
        self.of_server += usize::from(self.last.replace(wire) != Some(wire));
    }
}

async fn java_gets_its_turns_beside_sixty_four_rust_tasks(harness: Harness) {
    let grants = java_gets_its_turns(harness, |lock| lock).await;
    assert!(grants.all > grants.of_server, "the client handed holds off");
}

async fn java_gets_its_turns_beside_rust_tasks_that_hand_nothing_off(harness: Harness) {
    java_gets_its_turns(harness, |lock| lock.hand_off(Duration::ZERO)).await;
}

/// Lets a Java thread acquire and release beside Rust tasks that do so all the time. Returns the grants of the tasks.
async fn java_gets_its_turns(harness: Harness, terms: fn(Lock) -> Lock) -> Grants {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("order"));
    let (thread, commands) = (peer.thread("a"), LockCommands::of_lock("lock", &name, Some(channel(&name))));
    let owner = thread.wire_owner().await;
    let (grants, is_over) = (Arc::new(Mutex::new(Grants::default())), Arc::new(AtomicBool::new(false)));
    let start = |_| {
        let lock = terms(client.lock(&*name));
        let (grants, is_over) = (Arc::clone(&grants), Arc::clone(&is_over));
        tokio::spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                let guard = lock.lock().await.unwrap();
                grants.lock().unwrap().note(guard.wire_owner());
                guard.release().await.unwrap();
            }
        })
    };
    let running: Vec<_> = (0..TASKS).map(start).collect();
    eventually("the tasks to take the lock", || grants.lock().unwrap().all > TASKS).await;
    let (monitor, mut longest) = (Monitor::start(harness.server()), Duration::ZERO);
    for _ in 0..TURNS {
        let requested = Instant::now();
        let answer = soon("Java's turn", thread.ask(&commands.acquire).ok()).await;
        longest = longest.max(requested.elapsed());
        commands.release_lock(&thread, &answer).await;
    }
    is_over.store(true, Ordering::Relaxed);
    for task in running {
        soon("the task's last turn", task).await.unwrap();
    }
    let mut heard = heard_before_grants(&monitor.lines(), &channel(&name), &owner);
    let grants = std::mem::take(&mut *grants.lock().unwrap());
    println!(
        "Java waited for at most {longest:?}, and heard {heard:?} releases of the Rust client before its grants. The \
         client passed {} grants of the server on to {} guards",
        grants.of_server, grants.all
    );
    heard.sort_unstable();
    let most = heard[heard.len() * 9 / 10];
    assert!(most <= HEARD_MAX, "{most} releases of the Rust client while Java waited: {heard:?}");
    grants
}

/// Returns the number of messages on a channel from the time at which Java subscribes to its grant, for each grant that
/// it waited for.
fn heard_before_grants(lines: &[String], channel: &str, owner: &str) -> Vec<usize> {
    let (mut heard, mut before_grants) = (None, Vec::new());
    for line in lines {
        let words: Vec<&str> = line.trim_end_matches('"').split("\" \"").collect();
        let verb = words[0].rsplit('"').next().unwrap_or_default().to_ascii_lowercase();
        match (&*verb, &words[1..]) {
            ("subscribe" | "ssubscribe", channels) if channels.contains(&channel) => heard = Some(0),
            ("publish" | "spublish", [to, _]) if *to == channel => {
                heard = heard.map(|heard: usize| heard + 1);
            }
            ("hincrby", [_, field, "1"]) if *field == owner => before_grants.extend(heard.take()),
            _ => {}
        }
    }
    before_grants
}
