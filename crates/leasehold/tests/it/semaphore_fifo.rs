//! The semaphore with a queue. Waiters of all processes are served in the order of arrival, and dead waiters lose their
//! place.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold::{ReleaseOutcome, Semaphore};
use tokio::task::JoinHandle;

use crate::semaphore::{acquire_in_task, left, markers, seats};
use crate::support::{
    Fixture, TestServer, connect, connect_without_polling, eventually, ms, on_both, pttl, run_command, soon,
};

on_both! {
    async {
        queued_waiters_of_all_clients_are_served_in_arrival_order,
        a_waiter_for_many_does_not_starve_in_a_queue,
        a_single_attempt_does_not_overtake_the_queue,
        a_timed_out_waiter_leaves_the_queue_to_the_next,
        a_dead_waiter_in_the_queue_is_skipped,
        an_empty_queue_is_deleted,
    }
}

/// Waits in a queue in a task of its own, and records its number when it gets the permit.
fn queue_in_task(
    semaphore: &Semaphore,
    number: usize,
    served: &Arc<Mutex<Vec<usize>>>,
) -> JoinHandle<Result<ReleaseOutcome, leasehold::Error>> {
    let (semaphore, served) = (semaphore.clone(), Arc::clone(served));
    tokio::spawn(async move {
        let permit = semaphore.acquire().await?;
        served.lock().unwrap().push(number);
        Ok(permit.release().await?)
    })
}

/// The length of the queue.
fn queued(server: &impl TestServer) -> usize {
    server.cli(&["LLEN", "leasehold_sc_queue:{seats}"]).parse().unwrap()
}

async fn queued_waiters_of_all_clients_are_served_in_arrival_order(server: Fixture) {
    let clients = [connect(&server).await, connect(&server).await, connect(&server).await];
    let first = seats(&clients[0], 1).await.fifo().acquire().await.unwrap();
    let served = Arc::default();
    let mut tasks = Vec::new();
    for number in 0..12 {
        let semaphore = clients[number % 3].semaphore("seats").fifo();
        tasks.push(queue_in_task(&semaphore, number, &served));
        eventually("it to stand in the queue", || queued(&server) == number + 1).await;
    }
    first.release().await.unwrap();
    for task in tasks {
        soon("its turn", task).await.unwrap().unwrap();
    }
    assert_eq!(*served.lock().unwrap(), (0..12).collect::<Vec<_>>());
    assert_eq!(left(&server), 1);
}

async fn a_waiter_for_many_does_not_starve_in_a_queue(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let seats = seats(&one, 3).await.fifo();
    let held =
        [seats.acquire().await.unwrap(), seats.acquire().await.unwrap(), seats.acquire().await.unwrap()];
    let many = acquire_in_task(&seats, 3);
    eventually("it to stand in the queue", || queued(&server) == 1).await;
    let few = acquire_in_task(&other.semaphore("seats").fifo(), 1);
    eventually("the other one as well", || queued(&server) == 2).await;
    for (returned, permit) in held.into_iter().enumerate() {
        assert!(!many.is_finished() && !few.is_finished(), "after {returned}");
        permit.release().await.unwrap();
    }
    let many = soon("all three", many).await.unwrap().unwrap();
    assert!(!few.is_finished());
    many.release().await.unwrap();
    soon("the one behind it", few).await.unwrap().unwrap().release().await.unwrap();
}

async fn a_single_attempt_does_not_overtake_the_queue(server: Fixture) {
    let (one, other) = (connect(&server).await, connect_without_polling(&server).await);
    let seats = seats(&one, 1).await.fifo();
    let waiting = acquire_in_task(&seats, 2);
    eventually("it to stand in the queue", || queued(&server) == 1).await;
    assert!(
        other.semaphore("seats").fifo().try_acquire().await.unwrap().is_none(),
        "one is free, and it is not its turn"
    );
    assert_eq!(queued(&server), 1, "it does not stand there itself");
    assert!(
        other.semaphore("seats").try_acquire().await.unwrap().is_some(),
        "a semaphore that is not fifo passes"
    );
    waiting.abort();
}

async fn a_timed_out_waiter_leaves_the_queue_to_the_next(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let seats = seats(&one, 1).await.fifo();
    let impatient = acquire_in_task(&seats, 2);
    eventually("it to stand in the queue", || queued(&server) == 1).await;
    let next = acquire_in_task(&other.semaphore("seats").fifo(), 1);
    eventually("the next one as well", || queued(&server) == 2).await;
    impatient.abort();
    soon("its turn", next).await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(left(&server), 1);
    assert!(seats.try_acquire_many_for(2, ms(500)).await.unwrap().is_none());
    eventually("the queue to be empty", || queued(&server) == 0).await;
    assert_eq!(markers(&server), Vec::<String>::new(), "no outcome was uncertain");
}

async fn a_dead_waiter_in_the_queue_is_skipped(server: Fixture) {
    let seats = seats(&connect(&server).await, 1).await.fifo();
    let time: u64 = server.cli(&["TIME"]).lines().next().unwrap().parse().unwrap();
    for (member, seen_ms) in [("dead:1", time * 1000 - 6_000), ("dead:2", time * 1000 - 3_000)] {
        run_command(&server, &["RPUSH", "leasehold_sc_queue:{seats}", member]);
        run_command(&server, &["ZADD", "leasehold_sc_seen:{seats}", &seen_ms.to_string(), member]);
    }
    run_command(&server, &["RPUSH", "leasehold_sc_queue:{seats}", "without-a-score:1"]);
    let began = Instant::now();
    assert!(seats.try_acquire().await.unwrap().is_none(), "the second one may yet live");
    assert_eq!(queued(&server), 2, "the first one does not");
    let permit = soon("its turn", seats.acquire()).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(8));
    assert_eq!(queued(&server), 0);
    permit.release().await.unwrap();
}

async fn an_empty_queue_is_deleted(server: Fixture) {
    let client = connect(&server).await;
    let seats = seats(&client, 1).await.fifo();
    let permit = seats.acquire().await.unwrap();
    let waiting = acquire_in_task(&seats, 1);
    eventually("it to stand in the queue", || queued(&server) == 1).await;
    for key in ["leasehold_sc_queue:{seats}", "leasehold_sc_seen:{seats}"] {
        assert!((1..=10_000).contains(&pttl(&server, key)), "{key} expires soon after its last waiter");
    }
    permit.release().await.unwrap();
    drop(soon("its turn", waiting).await.unwrap().unwrap());
    eventually("the release", || left(&server) == 1).await;
    let keys = server.cli(&["KEYS", "*"]);
    let stays = |key: &&str| !key.starts_with("leasehold_op:");
    assert_eq!(keys.lines().filter(stays).collect::<Vec<_>>(), ["seats"]);
}
