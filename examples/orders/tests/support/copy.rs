//! A copy of the service, in a process of its own.
//!
//! Invariant: a started copy listens. Its drop kills it and waits for its end, also when it is frozen.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use leasehold_testkit::servers::RedisServer;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::database::Database;
pub(crate) use super::http::Answer;
use super::http::ask;

pub(crate) struct Copy {
    child: Child,
    address: SocketAddr,
}

impl Copy {
    /// Starts a copy with further arguments, and waits until it listens.
    pub(crate) fn start(name: &str, redis: &RedisServer, database: &Database, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_orders"))
            .args(["--name", name, "--redis", &redis.url(), "--database", database.url()])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address =
            line.trim().strip_prefix("listening on http://").map(|address| address.parse().unwrap());
        let Some(address) = address else {
            child.kill().unwrap();
            panic!("the copy did not start: {line:?} {:?}", child.wait());
        };
        Self { child, address }
    }

    /// Adds an order.
    #[track_caller]
    pub(crate) fn take_in(&self, order: i64) {
        let answer =
            ask(self.address, "PUT", &format!("/orders/{order}"), "{\"amount_cents\":1999}").unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    /// Pays an order, and waits for the answer.
    pub(crate) fn pay(&self, order: i64) -> Answer {
        self.post(&format!("/orders/{order}/pay")).unwrap()
    }

    /// Pays an order from a thread, or returns an error when the copy dies meanwhile.
    pub(crate) fn begin_to_pay(&self, order: i64) -> JoinHandle<std::io::Result<Answer>> {
        let address = self.address;
        thread(move || ask(address, "POST", &format!("/orders/{order}/pay"), ""))
    }

    pub(crate) fn begin_to_settle(&self) -> JoinHandle<std::io::Result<Answer>> {
        let address = self.address;
        thread(move || ask(address, "POST", "/jobs/settlement", ""))
    }

    /// Asks for a page of the operators.
    pub(crate) fn get(&self, path: &str) -> Answer {
        ask(self.address, "GET", path, "").unwrap()
    }

    fn post(&self, path: &str) -> std::io::Result<Answer> {
        ask(self.address, "POST", path, "")
    }

    /// Sends SIGSTOP, and returns when the process is stopped. Its connections stay open.
    pub(crate) fn freeze(&self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
        waitid(WaitId::Pid(self.pid()), WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT).unwrap();
    }

    /// Sends SIGCONT.
    pub(crate) fn thaw(&self) {
        kill_process(self.pid(), Signal::CONT).unwrap();
    }

    /// Sends SIGKILL, and returns when the process is gone.
    pub(crate) fn kill(&mut self) {
        // An error means that the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        self.kill();
    }
}

#[expect(clippy::disallowed_methods, reason = "test code: requests at the same time")]
fn thread<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    std::thread::spawn(body)
}
