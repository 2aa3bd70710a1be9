//! The blocking API on a real server: every method, the owner, the contexts that allow it, and both APIs together.

use std::thread::{self, JoinHandle};
use std::time::Duration;

use leasehold::blocking::Client;
use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait;

mod contexts;
mod counting;
mod faces;
mod holding;
mod owners;
mod reading;
mod sections;
mod transports;

use crate::support::SOON;

/// A polling interval that never passes during a test.
const NEVER: Duration = Duration::from_secs(3600);

fn server_and_client() -> (RedisServer, Client) {
    let server = RedisServer::start();
    let client = Client::connect(&server.url()).unwrap();
    (server, client)
}

/// A client whose waiters retry only after a wake-up.
fn connect_without_polling(server: &RedisServer) -> Client {
    Client::builder().poll_interval(NEVER).connect(&server.url()).unwrap()
}

/// Checks a condition repeatedly until it is true.
#[track_caller]
fn eventually(what: &str, condition: impl FnMut() -> bool) {
    wait::eventually(SOON, what, condition);
}

/// The result of a thread that must end soon.
#[track_caller]
fn joined<T>(thread: JoinHandle<T>) -> T {
    eventually("a thread to end", || thread.is_finished());
    thread.join().unwrap()
}

/// The result of work on another thread, which must end soon.
#[track_caller]
fn elsewhere<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    joined(thread::spawn(work))
}
