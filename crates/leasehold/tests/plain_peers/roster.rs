//! The peers, and what differs between them.

use std::time::Duration;

use leasehold::PlainFormat;

use crate::support::ms;

/// A library that shares locks with the plain lock.
#[derive(Debug)]
pub(crate) struct Kind {
    /// The name of its module of tests, and of its program.
    pub(crate) name: &'static str,
    pub(crate) format: fn() -> PlainFormat,
    /// The text before the name in its key.
    pub(crate) prefix: &'static str,
    /// The longest pause between two of its attempts, or the time that a slow peer takes for an attempt after a message.
    pub(crate) poll: Duration,
    /// True if it extends and releases a lock without a look at the value, also when another holder has it.
    pub(crate) overwrites: bool,
}

/// The environment of the ShedLock peer.
const SHEDLOCK: &str = "prod";
/// The registry of the Spring Integration peers.
const SPRING: &str = "registry";

const ALL: [Kind; 15] = [
    kind("redis_py", PlainFormat::redis_py, "", 100),
    kind("redis_py_asyncio", PlainFormat::redis_py, "", 100),
    kind("python_redis_lock", PlainFormat::python_redis_lock, "lock:", 0),
    kind("redsync", PlainFormat::redsync, "", 250),
    kind("redlock5", PlainFormat::node_redlock, "", 300),
    kind("redis_semaphore", PlainFormat::redis_semaphore, "mutex:", 10),
    kind("rslock", PlainFormat::rslock, "", 200),
    kind("pottery", PlainFormat::pottery, "redlock:", 200),
    kind("bsm", PlainFormat::bsm, "", 50),
    kind("redlock4", PlainFormat::node_redlock, "", 300),
    kind("rlock", PlainFormat::new, "", 100),
    Kind { overwrites: true, ..kind("shedlock", || PlainFormat::shedlock(SHEDLOCK), "job-lock:prod:", 10) },
    kind("safe_shedlock", || PlainFormat::shedlock(SHEDLOCK), "job-lock:prod:", 10),
    kind("spring", || PlainFormat::spring(SPRING), "registry:", 100),
    kind("spring_pub_sub", || PlainFormat::spring_pub_sub(SPRING), "registry:", 50),
];

const fn kind(name: &'static str, format: fn() -> PlainFormat, prefix: &'static str, poll_ms: u64) -> Kind {
    Kind { name, format, prefix, poll: ms(poll_ms), overwrites: false }
}

/// Returns the peer of this name.
pub(crate) fn find(name: &str) -> &'static Kind {
    static SHARED: [Kind; 15] = ALL;
    SHARED.iter().find(|kind| kind.name == name).expect("the roster has each peer that has tests")
}
