//! Crowds that count under a plain lock, which lose a count if two hold it at a time.

use leasehold::{Client, MultiLock};

use super::value;
use crate::support::{Fixture, connect, on_both, run_command, soon};

on_both! {
    async {
        tasks_of_two_clients_count_without_a_loss,
        a_fleet_moves_to_the_lock_and_back_without_a_stop,
    }
}

/// The lock that a service of a fleet uses while the fleet moves.
#[derive(Clone, Copy)]
enum Takes {
    Plain,
    Both,
    Lock,
}

impl Takes {
    fn of(self, client: &Client) -> MultiLock {
        let (plain, lock) = (client.plain_lock("job"), client.lock("job:2"));
        match self {
            Self::Plain => MultiLock::of([plain.into()]),
            Self::Both => MultiLock::of([plain.into(), lock.into()]),
            Self::Lock => MultiLock::of([lock.into()]),
        }
    }
}

/// Increments a counter in two commands, so two holders at a time lose a count.
async fn count_up(server: &Fixture, lock: &MultiLock, rounds: u64) {
    for _ in 0..rounds {
        let guard = lock.lock().await.unwrap();
        let count: u64 = value(server, "count").parse().unwrap_or_default();
        tokio::task::yield_now().await;
        run_command(server, &["SET", "count", &(count + 1).to_string()]);
        guard.release().await.unwrap();
    }
}

async fn tasks_of_two_clients_count_without_a_loss(server: Fixture) {
    const ROUNDS: u64 = 25;
    let clients = [connect(&server).await, connect(&server).await];
    let locks = [Takes::Plain.of(&clients[0]), Takes::Plain.of(&clients[1])];
    let counting = locks.iter().flat_map(|lock| [lock; 4]).map(|lock| count_up(&server, lock, ROUNDS));
    soon("all rounds", futures_util::future::join_all(counting)).await;
    assert_eq!(value(&server, "count"), (8 * ROUNDS).to_string());
}

async fn a_fleet_moves_to_the_lock_and_back_without_a_stop(server: Fixture) {
    const ROUNDS: u64 = 10;
    // The releases that run beside each other while the fleet moves, there and back.
    let moves = [(Takes::Plain, Takes::Both), (Takes::Both, Takes::Lock), (Takes::Both, Takes::Plain)];
    for (old, new) in moves {
        run_command(&server, &["DEL", "count"]);
        let clients = [connect(&server).await, connect(&server).await];
        let locks = [old.of(&clients[0]), new.of(&clients[1])];
        let counting = locks.iter().flat_map(|lock| [lock; 3]).map(|lock| count_up(&server, lock, ROUNDS));
        soon("all rounds", futures_util::future::join_all(counting)).await;
        assert_eq!(value(&server, "count"), (6 * ROUNDS).to_string());
    }
}
