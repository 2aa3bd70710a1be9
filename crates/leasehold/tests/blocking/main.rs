//! The blocking face on a real server: every method, who the owner is, where it may be called, and both faces together.

#![allow(clippy::unwrap_used, reason = "helpers of tests are test code too")]
#![allow(clippy::disallowed_methods, reason = "test code: threads, tasks and real time")]
#![allow(unused_crate_dependencies, reason = "the crate's other tests use them")]

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
mod sections;
#[path = "../support/mod.rs"]
mod support;

use support::SOON;

/// Waiters that are not woken ask again after this time only.
const NEVER: Duration = Duration::from_secs(3600);

fn server_and_client() -> (RedisServer, Client) {
    let server = RedisServer::start();
    let client = Client::connect(&server.url()).unwrap();
    (server, client)
}

/// A client whose waiters ask again only when they are woken.
fn connect_without_polling(server: &RedisServer) -> Client {
    Client::builder().poll_interval(NEVER).connect(&server.url()).unwrap()
}

/// Looks at a condition again and again until it is true.
#[track_caller]
fn eventually(what: &str, condition: impl FnMut() -> bool) {
    wait::eventually(SOON, what, condition);
}

/// What a thread comes to, which should be soon.
#[track_caller]
fn joined<T>(thread: JoinHandle<T>) -> T {
    eventually("a thread to end", || thread.is_finished());
    thread.join().unwrap()
}

/// What another thread comes to, which should be soon.
#[track_caller]
fn elsewhere<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    joined(thread::spawn(work))
}
