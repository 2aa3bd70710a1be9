//! Turns: no client keeps a lock or a permit from the waiting tasks of another client.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold::lock::WireOwner;
use leasehold::multi::Member;
use leasehold::{Client, Lock, MultiLock, Name};
use tokio::sync::Barrier;

use crate::support::{Fixture, connect, eventually, on_both, soon};

on_both! {
    async {
        clients_take_turns_at_a_plain_lock,
        clients_take_turns_at_a_string,
        clients_that_hand_off_take_turns_at_a_string,
        a_waiter_for_a_string_has_its_turn_beside_a_task_that_comes_again_at_once,
        clients_take_turns_at_a_multi_lock,
        clients_take_turns_at_a_spin_lock,
        clients_take_turns_at_the_only_permit,
        clients_take_turns_at_the_only_permit_with_a_lease,
        clients_take_turns_at_the_only_permit_in_order,
        clients_take_turns_at_a_fair_lock,
        clients_that_hand_off_take_turns_at_a_plain_lock,
        clients_that_hand_off_take_turns_at_a_spin_lock,
        a_client_alone_hands_a_hold_off_beyond_the_bound_until_another_one_waits,
        clients_that_hand_off_take_turns_at_a_multi_lock,
        a_multi_lock_has_its_turn_beside_a_lock_of_its_client,
        a_lock_has_its_turn_beside_a_multi_lock_of_its_client,
        readers_have_their_turn_beside_writers_of_their_client,
        a_waiter_has_its_turn_beside_a_task_that_comes_again_at_once,
    }
}

const TASKS_PER_CLIENT: usize = 4;
const GRANTS: usize = 600;
/// The most grants in a row of one client while tasks of the other wait.
const RUN_MAX: usize = 150;
const OFF: Duration = Duration::ZERO;

/// Lets the tasks of two clients acquire and release repeatedly, and checks how long the other client's tasks wait.
async fn take_turns<F, S>(server: &Fixture, section: S)
where
    F: Future<Output = ()> + Send + 'static,
    S: Fn(Client, Grants) -> F + Clone + Send + 'static,
{
    let clients = [connect(server).await, connect(server).await];
    let (grants, start) = (Grants::new(), Arc::new(Barrier::new(2 * TASKS_PER_CLIENT)));
    let tasks: Vec<_> = (0..2 * TASKS_PER_CLIENT)
        .map(|task| {
            let (client, section) = (clients[task % 2].clone(), section.clone());
            let (grants, start) = (Grants { client: task % 2, ..grants.clone() }, Arc::clone(&start));
            tokio::spawn(async move {
                start.wait().await;
                while !grants.is_over() {
                    let requested = Instant::now();
                    section(client.clone(), Grants { requested, ..grants.clone() }).await;
                }
            })
        })
        .collect();
    for task in tasks {
        soon("the task's last turn", task).await.unwrap();
    }
    let longest = grants.longest_run();
    println!("at most {longest} grants in a row of one client, waits of at most {:?}", grants.longest_wait());
    assert!(longest <= RUN_MAX, "{longest} grants in a row of one client");
}

/// The grants of the server, in their order, the client of the task that has this, and the time of its request.
#[derive(Clone)]
struct Grants {
    client: usize,
    requested: Instant,
    noted: Arc<Mutex<Noted>>,
}

#[derive(Default)]
struct Noted {
    /// The client of each grant, and the wire owner of a hold that can pass on inside its client.
    grants: Vec<(usize, Option<WireOwner>)>,
    longest_wait: Duration,
}

impl Grants {
    fn new() -> Self {
        Self { client: 0, requested: Instant::now(), noted: Arc::default() }
    }

    /// Notes a grant of a lock that does not pass on inside its client.
    fn note(&self) {
        self.note_hold(None);
    }

    /// Notes the grant of a guard. It is a grant of the server unless the hold passed on inside its client.
    fn note_hold(&self, wire: Option<WireOwner>) {
        let mut noted = self.noted.lock().unwrap();
        noted.longest_wait = noted.longest_wait.max(self.requested.elapsed());
        let hold = (self.client, wire);
        if wire.is_none() || noted.grants.last() != Some(&hold) {
            noted.grants.push(hold);
        }
    }

    fn is_over(&self) -> bool {
        self.noted.lock().unwrap().grants.len() >= GRANTS
    }

    fn longest_run(&self) -> usize {
        let noted = self.noted.lock().unwrap();
        let runs = noted.grants[..GRANTS].chunk_by(|(one, _), (next, _)| one == next);
        runs.map(<[_]>::len).max().unwrap_or_default()
    }

    fn longest_wait(&self) -> Duration {
        self.noted.lock().unwrap().longest_wait
    }
}

async fn clients_take_turns_at_a_plain_lock(server: Fixture) {
    take_turns(&server, |client, grants| async move {
        let guard = client.lock("turn").hand_off(OFF).lock().await.unwrap();
        grants.note();
        guard.release().await.unwrap();
    })
    .await;
}

async fn clients_take_turns_at_a_string(server: Fixture) {
    take_turns(&server, |client, grants| async move {
        let guard = client.plain_lock("turn").hand_off(OFF).lock().await.unwrap();
        grants.note();
        guard.release().await.unwrap();
    })
    .await;
}

async fn clients_that_hand_off_take_turns_at_a_string(server: Fixture) {
    take_turns(&server, |client, grants| async move {
        let guard = client.plain_lock("turn").lock().await.unwrap();
        grants.note_hold(Some(guard.wire_owner()));
        guard.release().await.unwrap();
    })
    .await;
}

async fn a_waiter_for_a_string_has_its_turn_beside_a_task_that_comes_again_at_once(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    let busy = client.plain_lock("turn");
    for is_dropped in [true, false] {
        let busy = busy.clone();
        let section = move || {
            let lock = busy.clone();
            async move {
                let guard = lock.lock().await.unwrap();
                if is_dropped { drop(guard) } else { drop(guard.release().await) }
            }
        };
        for waiting in [other.plain_lock("turn"), client.plain_lock("turn")] {
            let waits = || async { drop(waiting.lock().await.unwrap().release().await) };
            has_its_turn(1, section.clone(), waits).await;
        }
    }
}

async fn clients_take_turns_at_a_multi_lock(server: Fixture) {
    take_turns(&server, |client, grants| async move {
        let guard = MultiLock::of(members(&client, Some(OFF))).lock().await.unwrap();
        grants.note();
        guard.release().await.unwrap();
    })
    .await;
}

/// The members of a multi lock, with this bound of the hand-off instead of the client's.
fn members(client: &Client, hand_off: Option<Duration>) -> [Member; 2] {
    ["1", "2"].map(|rest| {
        let member = client.lock(Name::with_hash_tag("turn", rest).unwrap());
        match hand_off {
            Some(bound) => member.hand_off(bound).into(),
            None => member.into(),
        }
    })
}

async fn clients_take_turns_at_a_spin_lock(server: Fixture) {
    take_turns(&server, |client, grants| async move {
        let guard = client.spin_lock("turn").hand_off(OFF).lock().await.unwrap();
        grants.note();
        guard.release().await.unwrap();
    })
    .await;
}

async fn clients_that_hand_off_take_turns_at_a_plain_lock(server: Fixture) {
    take_turns(&server, |client, grants| async move {
        let guard = client.lock("turn").lock().await.unwrap();
        grants.note_hold(Some(guard.wire_owner()));
        guard.release().await.unwrap();
    })
    .await;
}

async fn a_client_alone_hands_a_hold_off_beyond_the_bound_until_another_one_waits(server: Fixture) {
    // A machine that does much else takes longer than 10 ms for an answer of the server.
    const BOUND: Duration = Duration::from_millis(100);
    let (alone, other) = (connect(&server).await, connect(&server).await);
    let (longest, mut holds) = tokio::sync::watch::channel(Duration::ZERO);
    let last: Arc<Mutex<Option<(WireOwner, Instant)>>> = Arc::default();
    let tasks: Vec<_> = (0..TASKS_PER_CLIENT)
        .map(|_| {
            let (lock, longest, last) = (alone.lock("turn").hand_off(BOUND), longest.clone(), last.clone());
            tokio::spawn(async move {
                loop {
                    let guard = lock.lock().await.unwrap();
                    let since = {
                        let mut last = last.lock().unwrap();
                        let hold = (guard.wire_owner(), Instant::now());
                        last.take_if(|(wire, _)| *wire != hold.0);
                        last.get_or_insert(hold).1
                    };
                    longest.send_if_modified(|longest| {
                        let is_longer = since.elapsed() > *longest;
                        *longest = since.elapsed().max(*longest);
                        is_longer
                    });
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    soon("a hold that passes on for three bounds", holds.wait_for(|longest| *longest > BOUND * 3))
        .await
        .unwrap();
    let mut longest_wait = Duration::ZERO;
    for _ in 0..20 {
        let requested = Instant::now();
        let guard = soon("the other client's turn", other.lock("turn").lock()).await.unwrap();
        longest_wait = longest_wait.max(requested.elapsed());
        guard.release().await.unwrap();
    }
    println!("the other client waits for at most {longest_wait:?}");
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
}

async fn clients_that_hand_off_take_turns_at_a_spin_lock(server: Fixture) {
    take_turns(&server, |client, grants| async move {
        let guard = client.spin_lock("turn").lock().await.unwrap();
        grants.note_hold(Some(guard.wire_owner()));
        guard.release().await.unwrap();
    })
    .await;
}

async fn clients_that_hand_off_take_turns_at_a_multi_lock(server: Fixture) {
    take_turns(&server, |client, grants| async move {
        let guard = MultiLock::of(members(&client, None)).lock().await.unwrap();
        grants.note_hold(Some(guard.as_ref()[0].wire_owner()));
        guard.release().await.unwrap();
    })
    .await;
}

async fn clients_take_turns_at_the_only_permit(server: Fixture) {
    connect(&server).await.semaphore("turn").try_set_permits(1).await.unwrap();
    take_turns(&server, |client, grants| async move {
        let guard = client.semaphore("turn").acquire().await.unwrap();
        grants.note();
        guard.release().await.unwrap();
    })
    .await;
}

async fn clients_take_turns_at_the_only_permit_with_a_lease(server: Fixture) {
    connect(&server).await.expirable_semaphore("turn").try_set_permits(1).await.unwrap();
    take_turns(&server, |client, grants| async move {
        let guard = client.expirable_semaphore("turn").acquire().await.unwrap();
        grants.note();
        guard.release().await.unwrap();
    })
    .await;
}

async fn clients_take_turns_at_the_only_permit_in_order(server: Fixture) {
    connect(&server).await.semaphore("turn").try_set_permits(1).await.unwrap();
    take_turns(&server, |client, grants| async move {
        let guard = client.semaphore("turn").fifo().acquire().await.unwrap();
        grants.note();
        guard.release().await.unwrap();
    })
    .await;
}

async fn clients_take_turns_at_a_fair_lock(server: Fixture) {
    take_turns(&server, |client, grants| async move {
        let guard = client.fair_lock("turn").lock().await.unwrap();
        grants.note();
        guard.release().await.unwrap();
    })
    .await;
}

/// Lets tasks of a client run a section again and again, and waits a few times for what another queue of the client wants.
/// Checks the number of sections meanwhile, which is that of a few turns.
async fn has_its_turn<S, W>(
    tasks: usize,
    section: impl Fn() -> S + Clone + Send + 'static,
    wait: impl Fn() -> W,
) where
    S: Future<Output = ()> + Send,
    W: Future<Output = ()>,
{
    const WAITS: u64 = 10;
    let sections = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..tasks)
        .map(|_| {
            let (sections, section) = (Arc::clone(&sections), section.clone());
            tokio::spawn(async move {
                loop {
                    section().await;
                    sections.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    eventually("sections", || sections.load(Ordering::Relaxed) > 20).await;
    let before = sections.load(Ordering::Relaxed);
    for _ in 0..WAITS {
        soon("the turn of the other queue", wait()).await;
    }
    let passed = sections.load(Ordering::Relaxed) - before;
    println!("{passed} sections during {WAITS} waits");
    assert!(passed < WAITS * u64::try_from(RUN_MAX).unwrap(), "{passed} sections passed {WAITS} waits");
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
}

fn both(client: &Client) -> MultiLock {
    MultiLock::of(members(client, Some(OFF)))
}

fn one(client: &Client) -> Lock {
    client.lock(Name::with_hash_tag("turn", "1").unwrap()).hand_off(OFF)
}

async fn a_multi_lock_has_its_turn_beside_a_lock_of_its_client(server: Fixture) {
    let client = connect(&server).await;
    let (busy, waiting) = (one(&client), both(&client));
    let section = move || {
        let lock = busy.clone();
        async move { drop(lock.lock().await.unwrap().release().await) }
    };
    has_its_turn(2, section, || async { drop(waiting.lock().await.unwrap().release().await) }).await;
}

async fn a_lock_has_its_turn_beside_a_multi_lock_of_its_client(server: Fixture) {
    let client = connect(&server).await;
    let waiting = one(&client);
    let section = move || {
        let locks = both(&client);
        async move { drop(locks.lock().await.unwrap().release().await) }
    };
    has_its_turn(2, section, || async { drop(waiting.lock().await.unwrap().release().await) }).await;
}

async fn readers_have_their_turn_beside_writers_of_their_client(server: Fixture) {
    let lock = connect(&server).await.rw_lock("turn");
    let writers = lock.clone();
    let section = move || {
        let lock = writers.clone();
        async move { drop(lock.write().await.unwrap().release().await) }
    };
    has_its_turn(2, section, || async { drop(lock.read().await.unwrap().release().await) }).await;
}

async fn a_waiter_has_its_turn_beside_a_task_that_comes_again_at_once(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    let busy = one(&client);
    let section = move || {
        let lock = busy.clone();
        // The drop releases in the background, and the next acquire follows it at once.
        async move { drop(lock.lock().await.unwrap()) }
    };
    for waiting in [one(&other), one(&client)] {
        let waits = || async { drop(waiting.lock().await.unwrap().release().await) };
        has_its_turn(1, section.clone(), waits).await;
    }
}
