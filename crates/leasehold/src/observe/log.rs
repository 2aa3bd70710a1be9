//! The observer that logs with `tracing`.
//!
//! Invariant: a WARN is something for an operator to look at. A lock that ends because its own terms end it is not a
//! loss.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use leasehold_proto::Moment;
use tracing::subscriber::NoSubscriber;
use tracing::{Dispatch, Level, dispatcher, event};

use super::fact::{Fact, Observer, What};

/// The time in which a message about one name is logged once, so that a server that is down does not fill the log.
const AGAIN_AFTER: Duration = Duration::from_secs(10);
/// The most names whose messages are remembered. More of them clear the list, and then a message may come twice.
const NAMES_MAX: usize = 1024;
/// The share of a lease below which a renewal is late. It is sent when two thirds are left, so it has failed or hung
/// for a whole third.
const LATE: f64 = 1.0 / 3.0;

/// The observer.
pub(super) struct Log {
    /// The subscriber of the thread that made the client, if it had one. Facts are logged on other threads too.
    dispatch: Option<Dispatch>,
    told: Mutex<BTreeMap<(&'static str, String), Told>>,
}

/// When a message was logged, and how many more there were since.
struct Told {
    at: Moment,
    suppressed: u64,
}

impl Default for Log {
    fn default() -> Self {
        let dispatch = dispatcher::get_default(|current| {
            Some(current).filter(|current| !current.is::<NoSubscriber>()).cloned()
        });
        Self { dispatch, told: Mutex::default() }
    }
}

impl Observer for Log {
    fn fact(&self, fact: &Fact<'_>) {
        match &self.dispatch {
            Some(dispatch) => dispatcher::with_default(dispatch, || self.log(fact)),
            None => self.log(fact),
        }
    }
}

impl Log {
    /// Returns true if a client with this subscriber logs every acquire and release, and not only what is rare.
    pub(super) fn wants_all() -> bool {
        tracing::enabled!(target: "leasehold::hold", Level::DEBUG)
    }

    fn log(&self, fact: &Fact<'_>) {
        let names = (fact.name.unwrap_or_default(), fact.kind.unwrap_or_default());
        self.log_wait(fact, names);
        self.log_hold(fact, names);
        Self::log_connection(fact);
        Self::log_detail(fact, names);
    }

    /// Logs a wait that an operator may want to end, or whose end nobody knows.
    fn log_wait(&self, fact: &Fact<'_>, (name, kind): (&str, &str)) {
        match fact.what {
            What::Patient { waited, holder, is_own, .. } => {
                self.once("waiting for long", (fact.at, name), |suppressed| {
                    event!(
                        target: "leasehold::acquire",
                        Level::WARN,
                        lock.name = name,
                        lock.kind = kind,
                        lock.waited_ms = millis(waited),
                        lock.holder = holder,
                        lock.holder.is_own = is_own,
                        suppressed,
                        "waiting for long"
                    );
                });
            }
            What::NotAcquired { waited, outcome, free_within: Some(free_within), .. } => {
                self.once("outcome unknown", (fact.at, name), |suppressed| {
                    event!(
                        target: "leasehold::acquire",
                        Level::WARN,
                        lock.name = name,
                        lock.kind = kind,
                        lock.outcome = outcome.label(),
                        lock.waited_ms = millis(waited),
                        lock.free_within = %free_within,
                        suppressed,
                        "outcome unknown: the server may have granted the lock, and the client undoes it"
                    );
                });
            }
            _ => {}
        }
    }

    /// Logs a hold that ends, or is about to, other than its holder wants.
    fn log_hold(&self, fact: &Fact<'_>, (name, kind): (&str, &str)) {
        match fact.what {
            What::Lost { held, reason, .. } if reason.is_by_own_terms() => {
                event!(
                    target: "leasehold::hold",
                    Level::DEBUG,
                    lock.name = name,
                    lock.kind = kind,
                    lock.reason = %reason,
                    lock.held_ms = millis(held),
                    "lock ended by its own terms"
                );
            }
            What::Lost { held, reason, late } => self.once("lock lost", (fact.at, name), |suppressed| {
                event!(
                    target: "leasehold::hold",
                    Level::WARN,
                    lock.name = name,
                    lock.kind = kind,
                    lock.reason = %reason,
                    lock.held_ms = millis(held),
                    lock.late_ms = millis(late),
                    suppressed,
                    "lock lost"
                );
            }),
            What::NotRenewed { left, failures, error } if left < LATE => {
                self.once("renewal late", (fact.at, name), |suppressed| {
                    event!(
                        target: "leasehold::hold",
                        Level::WARN,
                        lock.name = name,
                        lock.kind = kind,
                        lock.lease_left = left,
                        lock.failures = failures,
                        error.r#type = %error,
                        suppressed,
                        "renewal late"
                    );
                });
            }
            What::NotRenewed { left, failures, error } => event!(
                target: "leasehold::hold",
                Level::DEBUG,
                lock.name = name,
                lock.kind = kind,
                lock.lease_left = left,
                lock.failures = failures,
                error.r#type = %error,
                "renewal failed, and is tried again"
            ),
            What::Unconfirmed { free_within, error } => {
                self.once("release not confirmed", (fact.at, name), |suppressed| {
                    event!(
                        target: "leasehold::hold",
                        Level::WARN,
                        lock.name = name,
                        lock.kind = kind,
                        lock.free_within = %free_within,
                        error.r#type = %error,
                        suppressed,
                        "release not confirmed: the client repeats it"
                    );
                });
            }
            _ => {}
        }
    }

    fn log_connection(fact: &Fact<'_>) {
        match fact.what {
            What::Connected { server, port, connection, moved: true, .. } => event!(
                target: "leasehold::connection",
                Level::INFO,
                server.address = server,
                server.port = port,
                connection = connection.label(),
                "another server answers"
            ),
            What::Connected { server, port, connection, again, .. } => event!(
                target: "leasehold::connection",
                Level::INFO,
                server.address = server,
                server.port = port,
                connection = connection.label(),
                again,
                "connected"
            ),
            What::Disconnected { server, port, connection, by_server } => event!(
                target: "leasehold::connection",
                Level::INFO,
                server.address = server,
                server.port = port,
                connection = connection.label(),
                by_server,
                "disconnected"
            ),
            What::PlainText { server } => event!(
                target: "leasehold::connection",
                Level::WARN,
                server.address = server,
                "the password travels in plain text to a host outside of private networks; use a URL that begins with \
                 `rediss`"
            ),
            What::MissingReplicas { connected, wanted } => event!(
                target: "leasehold::connection",
                Level::WARN,
                connected,
                wanted,
                "replicas are missing, so locks count with those that are connected, and a failover can lose them"
            ),
            _ => {}
        }
    }

    /// Logs what happens all the time.
    fn log_detail(fact: &Fact<'_>, (name, kind): (&str, &str)) {
        match fact.what {
            What::Waiting => {
                event!(
                    target: "leasehold::acquire",
                    Level::DEBUG, lock.name = name, lock.kind = kind, "waiting");
            }
            What::Acquired { waited, attempts, token, owner, .. } => event!(
                target: "leasehold::hold",
                Level::DEBUG,
                lock.name = name,
                lock.kind = kind,
                lock.waited_ms = millis(waited),
                lock.attempts = attempts,
                lock.token = token,
                lock.owner = owner,
                "acquired"
            ),
            What::NotAcquired { waited, attempts, outcome, free_within: None, .. } => event!(
                target: "leasehold::acquire",
                Level::DEBUG,
                lock.name = name,
                lock.kind = kind,
                lock.outcome = outcome.label(),
                lock.waited_ms = millis(waited),
                lock.attempts = attempts,
                "not acquired"
            ),
            What::Released { held, detached } => event!(
                target: "leasehold::hold",
                Level::DEBUG,
                lock.name = name,
                lock.kind = kind,
                lock.held_ms = millis(held),
                lock.detached = detached,
                "released"
            ),
            What::Renewed { left, took } => event!(
                target: "leasehold::call",
                Level::TRACE,
                lock.name = name,
                lock.kind = kind,
                lock.lease_left = left,
                took_us = micros(took),
                "renewed"
            ),
            What::Called { verb, took, error } => event!(
                target: "leasehold::call",
                Level::TRACE,
                db.system.name = "redis",
                db.operation.name = "EVALSHA",
                leasehold.verb = %verb,
                took_us = micros(took),
                error.r#type = error.map(tracing::field::display),
                "called"
            ),
            _ => {}
        }
    }

    /// Logs a message about a name, unless it was logged a short time ago. The next one then says how many there were.
    fn once(&self, message: &'static str, (now, name): (Moment, &str), log: impl FnOnce(u64)) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (message, name.to_owned());
        let suppressed = match told.get_mut(&key) {
            Some(last) if now.since(last.at) < AGAIN_AFTER => {
                last.suppressed += 1;
                return;
            }
            Some(last) => last.suppressed,
            None => 0,
        };
        if told.len() >= NAMES_MAX {
            told.clear();
        }
        told.insert(key, Told { at: now, suppressed: 0 });
        drop(told);
        log(suppressed);
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
