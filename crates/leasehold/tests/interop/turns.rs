//! Turns: Java waits beside many Rust tasks, whose client hands its holds from task to task.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold::lock::WireOwner;

use crate::harness::{Harness, on_each_server};
use crate::lock_commands::LockCommands;
use crate::support::{channel, eventually, soon};

on_each_server! {
    java_gets_its_turns_beside_sixty_four_rust_tasks,
}

const TASKS: usize = 64;
const TURNS: usize = 50;
/// The most holds of the Rust client on the server while Java waits once.
const RUN_MAX: usize = 150;

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
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("order"));
    let (thread, commands) = (peer.thread("a"), LockCommands::of_lock("lock", &name, Some(channel(&name))));
    let (grants, is_over) = (Arc::new(Mutex::new(Grants::default())), Arc::new(AtomicBool::new(false)));
    let start = |_| {
        let (lock, grants, is_over) = (client.lock(&*name), Arc::clone(&grants), Arc::clone(&is_over));
        tokio::spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                let guard = lock.lock().await.unwrap();
                grants.lock().unwrap().note(guard.wire_owner());
                guard.release().await.unwrap();
            }
        })
    };
    let tasks: Vec<_> = (0..TASKS).map(start).collect();
    eventually("the tasks to take the lock", || grants.lock().unwrap().all > TASKS).await;
    let (mut longest, mut most) = (Duration::ZERO, 0);
    for _ in 0..TURNS {
        let (before, requested) = (grants.lock().unwrap().of_server, Instant::now());
        let answer = soon("Java's turn", thread.ask(&commands.acquire).ok()).await;
        longest = longest.max(requested.elapsed());
        most = most.max(grants.lock().unwrap().of_server - before);
        commands.release_lock(&thread, &answer).await;
    }
    is_over.store(true, Ordering::Relaxed);
    for task in tasks {
        soon("the task's last turn", task).await.unwrap();
    }
    let grants = grants.lock().unwrap();
    println!(
        "Java waited for at most {longest:?} and {most} holds of the Rust client, which passed {} grants of the server on to \
         {} guards",
        grants.of_server, grants.all
    );
    assert!(most <= RUN_MAX, "{most} holds of the Rust client while Java waited");
    assert!(grants.all > grants.of_server, "the client handed holds off");
}
