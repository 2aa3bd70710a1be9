//! What a listing says: the objects of a fleet, their holders and waiters, and where the knowledge comes from.
//!
//! Invariant: plain values, which the table, the JSON form, `top` and the page share. `docs/schema/list.json` describes them.

use std::time::{Duration, UNIX_EPOCH};

use leasehold_proto::ClientId;
use leasehold_proto::operate::Kind;
use serde::{Serialize, Serializer};

/// The version of the JSON form. It grows when a field changes its meaning or goes.
pub(crate) const SCHEMA: u32 = 1;

/// A listing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Listing {
    pub(crate) schema: u32,
    /// The time by this machine's clock, as RFC 3339.
    pub(crate) at: String,
    #[serde(skip)]
    pub(crate) at_ms: i64,
    /// The servers, without passwords.
    pub(crate) server: String,
    /// True if nothing that could be seen is missing.
    pub(crate) complete: bool,
    /// The objects that were left out by a limit.
    pub(crate) omitted: usize,
    pub(crate) sources: Sources,
    pub(crate) objects: Vec<Object>,
}

/// Where the knowledge comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Sources {
    pub(crate) clients: Clients,
    /// The names that are waited for, or `None` if a server did not tell.
    pub(crate) channels: Option<usize>,
    /// The scan of all keys, or `None` without one.
    pub(crate) scan: Option<Scan>,
    /// What could not be seen, in words.
    pub(crate) missing: Vec<String>,
    /// The number of servers of a quorum that the configuration names, of which one was asked.
    #[serde(skip)]
    pub(crate) quorum: usize,
}

/// The clients that were asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Clients {
    pub(crate) asked: usize,
    pub(crate) answered: usize,
    /// The clients that have not answered. Some of them may have ended, if others listen and stand still.
    pub(crate) silent: Vec<ClientRow>,
    /// The clients that no longer listen: their processes vanished, or have lost the server.
    pub(crate) ended: Vec<ClientRow>,
    /// The clients that have answered.
    pub(crate) living: Vec<ClientRow>,
}

/// A client.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ClientRow {
    pub(crate) client: String,
    pub(crate) process: Process,
    pub(crate) holds: Option<u64>,
    pub(crate) waits: Option<u64>,
    /// The time since the client was created.
    pub(crate) age_ms: Option<u64>,
    /// The time until the card ends.
    pub(crate) card_left_ms: Option<u64>,
}

/// A scan of all keys.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Scan {
    /// The keys of the databases.
    pub(crate) keys: u64,
    /// True if the scan has reached the end.
    pub(crate) done: bool,
    /// The part of the servers' time that it took.
    pub(crate) share: f64,
    /// True if the databases are too large for a scan without a request.
    #[serde(skip)]
    pub(crate) is_declined: bool,
}

/// An object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Object {
    /// The name, without the key prefix.
    pub(crate) name: String,
    /// The key on the server.
    pub(crate) key: String,
    #[serde(serialize_with = "as_text")]
    pub(crate) kind: Kind,
    /// The server that has it.
    pub(crate) node: String,
    pub(crate) holders: Vec<Holder>,
    /// The holders, of which there may be more than are listed.
    pub(crate) holders_total: u64,
    pub(crate) waiting: Waits,
    pub(crate) permits: Option<Permits>,
    /// The count of a latch, or the number of a counter.
    pub(crate) count: Option<i64>,
    /// The content of a string that another library may use as a lock, cut.
    pub(crate) value: Option<String>,
    /// The server's type of an object that is no lock of any kind.
    #[serde(skip)]
    pub(crate) stored_as: Option<String>,
    /// The time that the key has left, or `None` without an expiry.
    pub(crate) expires_ms: Option<u64>,
    /// What the holder waits for itself, and so on. Only `show` looks for it.
    pub(crate) chain: Vec<Step>,
    pub(crate) warnings: Vec<Warning>,
}

/// A holder that waits itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Step {
    pub(crate) client: String,
    pub(crate) process: Option<Process>,
    /// The name, without the key prefix.
    pub(crate) waits_for: String,
    pub(crate) longest_ms: u64,
    /// The client that holds it.
    pub(crate) held_by: Option<String>,
    pub(crate) held_by_process: Option<Process>,
}

/// A holder.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Holder {
    /// The wire owner, the id of a permit, or the value of a plain lock whose client is unknown.
    pub(crate) owner: String,
    /// The client's id, if the owner has one.
    pub(crate) client: Option<String>,
    pub(crate) count: u64,
    /// `read` or `write`, for a read-write lock.
    pub(crate) side: Option<&'static str>,
    /// The beginning of the hold, as RFC 3339 by this machine's clock.
    pub(crate) since: Option<String>,
    pub(crate) age_ms: Option<u64>,
    pub(crate) age_is: Option<AgeIs>,
    /// The time that the hold has left on the server unless it is renewed, or `None` without an end.
    pub(crate) lease_ms: Option<u64>,
    /// The lease that the client renews, if it says so.
    #[serde(skip)]
    pub(crate) whole_lease_ms: Option<u64>,
    /// True if the client renews the hold, or `None` if its client does not say.
    pub(crate) renewed: Option<bool>,
    pub(crate) token: Option<u64>,
    pub(crate) note: Option<String>,
    pub(crate) process: Option<Process>,
    /// Who has written the value of a plain lock.
    pub(crate) form: Option<Form>,
    /// The value of a plain lock, if all of it is known.
    #[serde(skip)]
    pub(crate) value: Option<Vec<u8>>,
}

/// Who has written the value of a plain lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Form {
    /// A client of this library.
    Own,
    /// A client of this library, and a waiter has marked the value, so the release sends a message.
    Marked,
    /// Another library, or a program that has chosen the value.
    Foreign,
}

/// How an age is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AgeIs {
    /// The client says it.
    Exact,
    /// The hold was first seen that long ago.
    #[allow(dead_code, reason = "only a view that looks again and again can say it")]
    AtLeast,
}

/// A process, as its card says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) pid: u32,
    pub(crate) program: String,
    pub(crate) library: String,
    /// What the program says about itself.
    pub(crate) labels: Vec<(String, String)>,
}

/// Those who wait.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Waits {
    /// The clients, or `None` if the server does not count them.
    pub(crate) clients: Option<u64>,
    /// The acquires, as far as clients say.
    pub(crate) tasks: Option<u64>,
    pub(crate) longest_ms: Option<u64>,
    /// The clients that say that they wait.
    pub(crate) by: Vec<Waiter>,
    /// The first places of the server's queue.
    pub(crate) queue: Vec<Place>,
    /// The length of the queue.
    pub(crate) queued: u64,
}

/// A client that waits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Waiter {
    pub(crate) client: String,
    pub(crate) tasks: u64,
    pub(crate) longest_ms: u64,
    pub(crate) process: Option<Process>,
}

/// A place in a queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Place {
    /// 1 for the next.
    pub(crate) position: u64,
    pub(crate) owner: String,
    /// The time since the waiter's last call. Redisson's waiters make none.
    pub(crate) seen_ms: Option<u64>,
    /// True if the server will pass the waiter by.
    pub(crate) dead: bool,
    pub(crate) process: Option<Process>,
}

/// The permits of a semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Permits {
    pub(crate) available: i64,
    pub(crate) taken: Option<u64>,
    pub(crate) total: Option<i64>,
}

/// A warning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Warning {
    pub(crate) name: &'static str,
    pub(crate) text: String,
}

fn as_text<S: Serializer>(kind: &Kind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name())
}

impl Listing {
    pub(crate) fn new(
        at_ms: i64,
        server: String,
        sources: Sources,
        objects: Vec<Object>,
        omitted: usize,
    ) -> Self {
        let at = rfc3339(at_ms);
        let is_scanned = sources.scan.is_none_or(|scan| scan.done);
        let complete = sources.clients.silent.is_empty() && is_scanned && sources.missing.is_empty();
        Self { schema: SCHEMA, at, at_ms, server, complete, omitted, sources, objects }
    }

    /// Says when each hold of a known age began.
    pub(crate) fn date(&mut self) {
        for holder in self.objects.iter_mut().flat_map(|object| &mut object.holders) {
            let began = |age: u64| rfc3339(self.at_ms.saturating_sub_unsigned(age));
            holder.since = holder.age_ms.filter(|_| holder.age_is == Some(AgeIs::Exact)).map(began);
        }
    }
}

fn rfc3339(unix_ms: i64) -> String {
    let since = Duration::from_millis(u64::try_from(unix_ms).unwrap_or(0));
    humantime::format_rfc3339_millis(UNIX_EPOCH + since).to_string()
}

impl Object {
    /// Returns true if there is an object, or a waiter.
    pub(crate) fn is_there(&self) -> bool {
        !self.holders.is_empty()
            || self.permits.is_some()
            || self.count.is_some()
            || self.value.is_some()
            || self.expires_ms.is_some()
            || self.waiting.is_any()
            || self.kind == Kind::Foreign
    }

    /// Returns true if the server has nothing under the name but listeners.
    pub(crate) fn is_only_heard(&self) -> bool {
        let mut unheard = self.clone();
        unheard.waiting.clients = None;
        self.is_there() && !unheard.is_there()
    }

    /// Returns the age of the oldest hold.
    pub(crate) fn longest_hold_ms(&self) -> Option<u64> {
        self.holders.iter().filter_map(|holder| holder.age_ms).max()
    }
}

impl Waits {
    /// Returns true if there are waiters.
    pub(crate) fn is_any(&self) -> bool {
        self.queued > 0
            || self.clients.is_some_and(|count| count > 0)
            || self.tasks.is_some_and(|count| count > 0)
    }

    /// Returns the number of waiters, as far as it is known.
    pub(crate) fn most(&self) -> u64 {
        self.tasks.unwrap_or(0).max(self.queued).max(self.clients.unwrap_or(0))
    }
}

impl Holder {
    /// Returns true if another library has written the hold.
    pub(crate) fn is_foreign(&self) -> bool {
        self.form == Some(Form::Foreign)
    }
}

impl Process {
    /// Returns the process as one word.
    pub(crate) fn short(&self) -> String {
        let Self { name, host, pid, .. } = self;
        format!("{name}@{host}:{pid}")
    }
}

/// Returns the client of an owner.
pub(super) fn client_of(owner: &str) -> Option<ClientId> {
    owner.split_once(':').and_then(|(client, _)| client.parse().ok())
}
