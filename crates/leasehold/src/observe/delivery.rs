//! Delivers the facts that the client's own thread finds out, through a queue and a thread that empties it.
//!
//! Invariant: queueing a fact never waits, because the thread that queues it may be the driver, which renews the locks.
//! A blocked log pipe costs facts, but no lock.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;

use leasehold_proto::engine::{self, AcquireFailure, Detail};
use leasehold_proto::recipe::Holders;
use leasehold_proto::{ClientId, Moment};

use super::fact::{Connection, What};
use super::observers::{Audience, Observers};

/// The facts that may wait for the observers of a process. More of them are dropped and counted.
pub const QUEUE_MAX: usize = 8192;

/// The most facts for which a thread keeps its memory, so that one busy step does not keep memory for good.
const BUFFERED: usize = 64;

/// Facts for the observers of one client.
#[cfg_attr(
    not(feature = "redis"),
    expect(dead_code, reason = "only a connection tells of passwords and replicas")
)]
enum Facts {
    OfEngine(Vec<engine::Fact>),
    Patient { fact: engine::Fact, holders: Holders, own: ClientId },
    PlainText { server: String },
    MissingReplicas { connected: u32, wanted: u32 },
    Connection(ConnectionChange),
}

/// A connection that serves from now on, or that has ended.
pub(crate) struct ConnectionChange {
    /// The host and the port, or the path of a socket.
    pub(crate) server: (String, Option<u16>),
    pub(crate) connection: Connection,
    pub(crate) kind: ConnectionEvent,
}

/// The change of a connection.
#[derive(Clone, Copy)]
#[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "only a connection changes"))]
pub(crate) enum ConnectionEvent {
    Opened { again: bool, moved: bool },
    Ended { by_server: bool },
}

impl ConnectionChange {
    fn what(&self) -> What<'_> {
        let (server, port) = (&*self.server.0, self.server.1);
        let connection = self.connection;
        match self.kind {
            ConnectionEvent::Opened { again, moved } => {
                What::Connected { server, port, connection, again, moved }
            }
            ConnectionEvent::Ended { by_server } => {
                What::Disconnected { server, port, connection, by_server }
            }
        }
    }
}

impl Facts {
    fn many(&self) -> usize {
        match self {
            Self::OfEngine(facts) => facts.len(),
            Self::Patient { .. }
            | Self::PlainText { .. }
            | Self::MissingReplicas { .. }
            | Self::Connection(_) => 1,
        }
    }
}

/// The sending half of the queue, which all clients of the process share.
struct Queue {
    sender: Sender<(Arc<Observers>, Facts)>,
    waiting: Arc<AtomicUsize>,
}

impl Observers {
    /// Tells facts: on this thread if it is a caller's. The driver tells only the observers that never wait, and the queue
    /// has the facts for the others.
    pub(crate) fn deliver(self: &Arc<Self>, mut facts: Vec<engine::Fact>, (now, by_driver): (Moment, bool)) {
        self.note_time(now);
        self.tell(&facts, if by_driver { Audience::Inline } else { Audience::All });
        if !by_driver || !self.are_queued() {
            return keep(facts);
        }
        // An observer of ours that counts all is no reason to queue all for one that logs what is rare.
        if self.queued() == Some(Detail::Rare) {
            facts.retain(is_rare);
        }
        self.queue(Facts::OfEngine(facts));
    }

    /// Tells the observers behind the queue of a long wait, with those who hold what is waited for.
    pub(crate) fn patient(self: &Arc<Self>, fact: engine::Fact, holders: Holders, own: ClientId) {
        self.queue(Facts::Patient { fact, holders, own });
    }

    /// Tells that a password travels to this server in plain text.
    #[cfg(feature = "redis")]
    pub(crate) fn plain_text(self: &Arc<Self>, server: String) {
        self.queue(Facts::PlainText { server });
    }

    /// Tells that fewer replicas are connected than the policy wants.
    #[cfg(feature = "redis")]
    pub(crate) fn missing_replicas(self: &Arc<Self>, connected: u32, wanted: u32) {
        self.queue(Facts::MissingReplicas { connected, wanted });
    }

    /// Tells that a connection serves from now on, or that it has ended.
    #[cfg(feature = "redis")]
    pub(crate) fn connection(self: &Arc<Self>, change: ConnectionChange) {
        self.about_none(Audience::Inline, change.what());
        self.queue(Facts::Connection(change));
    }

    fn queue(self: &Arc<Self>, facts: Facts) {
        /// The queue of this process, with its thread, which begins with the first fact.
        static QUEUE: OnceLock<Option<Queue>> = OnceLock::new();
        let many = facts.many();
        if many == 0 || !self.are_queued() {
            return;
        }
        // Without a thread, and with a full queue, the facts are lost.
        let queued = QUEUE.get_or_init(start).as_ref().is_some_and(|queue| {
            let before = queue.waiting.fetch_add(many, Ordering::Relaxed);
            if before + many > QUEUE_MAX {
                queue.waiting.fetch_sub(many, Ordering::Relaxed);
                return false;
            }
            queue.sender.send((Arc::clone(self), facts)).is_ok()
        });
        if !queued {
            self.drop_facts(many);
        }
    }
}

thread_local! {
    /// The memory of the last facts of this thread.
    static BUFFER: Cell<Vec<engine::Fact>> = const { Cell::new(Vec::new()) };
}

/// Returns an empty list for facts.
pub(crate) fn facts_buffer() -> Vec<engine::Fact> {
    // A guard may be dropped while its thread ends.
    BUFFER.try_with(Cell::take).unwrap_or_default()
}

/// Keeps the memory of facts for the next ones.
fn keep(mut facts: Vec<engine::Fact>) {
    facts.clear();
    facts.shrink_to(BUFFERED);
    let _ = BUFFER.try_with(|buffer| buffer.set(facts));
}

/// Returns true for a fact that an operator acts on.
const fn is_rare(fact: &engine::Fact) -> bool {
    match fact {
        engine::Fact::Patient { .. }
        | engine::Fact::Unconfirmed { .. }
        | engine::Fact::Lost { .. }
        | engine::Fact::NotRenewed { .. } => true,
        engine::Fact::NotAcquired { failure, .. } => matches!(failure, Some(AcquireFailure::Unknown { .. })),
        _ => false,
    }
}

#[expect(clippy::disallowed_methods, reason = "an observer that stands still may stop this thread alone")]
fn start() -> Option<Queue> {
    let (sender, facts) = channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&waiting);
    let thread = thread::Builder::new().name("leasehold-observe".into());
    thread.spawn(move || tell(&facts, &counted)).ok()?;
    Some(Queue { sender, waiting })
}

fn tell(queue: &Receiver<(Arc<Observers>, Facts)>, waiting: &AtomicUsize) {
    for (observers, facts) in queue {
        match &facts {
            Facts::OfEngine(facts) => observers.tell(facts, Audience::Queued),
            Facts::Patient { fact, holders, own } => observers.tell_patient(fact, holders, *own),
            Facts::Connection(change) => observers.about_none(Audience::Queued, change.what()),
            Facts::PlainText { server } => observers.about_none(Audience::Queued, What::PlainText { server }),
            Facts::MissingReplicas { connected, wanted } => {
                let what = What::MissingReplicas { connected: *connected, wanted: *wanted };
                observers.about_none(Audience::Queued, what);
            }
        }
        waiting.fetch_sub(facts.many(), Ordering::Relaxed);
    }
}
