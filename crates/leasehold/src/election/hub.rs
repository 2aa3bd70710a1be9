//! What one client knows and hears of one election, whatever the number of its observers, candidates and terms.
//!
//! Invariant: a client has one subscription and at most one question on its way per election. A message is a hint: only
//! the server's answer changes what observers see.
//!
//! # How it works
//! A task on the driver's thread listens on the election's channel. A message of a change leads to a question if somebody
//! observes. Without a message the next question comes when the leader's lease is over, with some jitter, and at the
//! latest after 10 s. The task ends with the last observer, candidate and term.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use leasehold_proto::backoff::spread;
use leasehold_proto::engine::{Event, Id, Subject};
use leasehold_proto::recipe::election::{self, Leader, Message};
use leasehold_proto::recipe::fenced::{Tokens, with_tokens};
use leasehold_proto::{Moment, Name, Owner, WireOwner};
use leasehold_store::Heard;
use tokio::sync::{Notify, mpsc, oneshot};

use super::level::Level;
use super::policy::{Asked, Asks};
use crate::runtime::shared::Handle;
use crate::runtime::shared::sleeping::sleep;
use crate::runtime::sync::{Mutex, lock};

/// The longest time between two questions.
pub(super) const ASK_EVERY: Duration = Duration::from_secs(10);
/// The time between two questions while nobody leads. A leader of leasehold announces itself, one of Java does not.
const ASK_LEADERLESS: Duration = Duration::from_secs(5);
/// The time after the end of a lease for which a question waits, so that the server has ended the lease by its own clock.
const AFTER_LEASE: Duration = Duration::from_millis(20);
/// The longest jitter, which keeps the observers of a dead leader from asking at the same moment.
const JITTER: Duration = Duration::from_millis(500);
/// The pause after a question that failed.
const RETRY: Duration = Duration::from_secs(1);
/// The time in which a candidate or a leader answers, to which the pauses between the repeated questions add up.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// The first of these pauses, a few trips. Each is twice as long as the one before.
const ASK_AGAIN: Duration = Duration::from_millis(8);

/// The last answer of the server.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// The time at which its question was sent.
    pub(super) at: Moment,
    pub(super) leader: Option<Leader>,
    /// True if a later question failed, and a lease is over since the answer.
    pub(super) is_outdated: bool,
}

impl Seen {
    /// Returns the lease of the leader as far as it is known and counts, or `None` without a leader.
    pub(super) fn known_lease(&self) -> Option<Duration> {
        self.leader.as_ref().map(|leader| leader.remaining.unwrap_or(ASK_EVERY).min(ASK_EVERY))
    }
}

/// What observers see.
#[derive(Clone, Debug, Default)]
pub(super) struct Sight {
    /// The number of the last change.
    pub(super) version: u64,
    pub(super) last: Option<Seen>,
    /// True once nobody asks any more, because the client is closed.
    pub(super) has_ended: bool,
}

/// Tells observers that nobody asks any more.
struct Ends(Arc<Level<Sight>>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.change(|sight| sight.has_ended = true);
    }
}

/// One election in one client.
pub(super) struct Hub {
    pub(super) handle: Arc<Handle>,
    pub(super) name: Name,
    pub(super) seen: Arc<Level<Sight>>,
    observers: AtomicUsize,
    observed: Arc<Notify>,
    seats: Mutex<Vec<(Id, Arc<str>, Owner)>>,
    terms: Mutex<Vec<Weak<Asks>>>,
    sought: Mutex<Vec<(String, oneshot::Sender<WireOwner>)>>,
    /// True once this client hears the answers.
    listens: Level<bool>,
    /// Ends the task when it is dropped.
    _ends: oneshot::Sender<()>,
}

/// A candidate that waits.
pub(super) struct Seat {
    hub: Arc<Hub>,
    id: Id,
}

impl Drop for Seat {
    fn drop(&mut self) {
        // A forked process may find the lock of its parent locked, and has no candidates.
        if self.hub.handle.check_process().is_err() {
            return;
        }
        lock(&self.hub.seats).retain(|(id, ..)| *id != self.id);
    }
}

/// An observer's share of the questions.
pub(super) struct Observing {
    pub(super) hub: Arc<Hub>,
    /// The time from which answers count. Before the first observer, nobody asked.
    pub(super) since: Moment,
}

impl Observing {
    pub(super) fn new(hub: &Arc<Hub>) -> Self {
        let is_first = hub.observers.fetch_add(1, Ordering::SeqCst) == 0;
        let since = if is_first { hub.handle.now() } else { Moment::default() };
        hub.observed.notify_one();
        Self { hub: Arc::clone(hub), since }
    }
}

impl Drop for Observing {
    fn drop(&mut self) {
        self.hub.observers.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Hub {
    /// Returns the hub of an election, and starts its task if there is none.
    pub(super) fn of(handle: &Arc<Handle>, name: &Name) -> Arc<Self> {
        let mut task = None;
        let hub = handle.common(name, || {
            let seen = Arc::new(Level::new(Sight::default()));
            let see = Ends(Arc::clone(&seen));
            let (ends, end) = oneshot::channel();
            let hub = Arc::new(Self {
                handle: Arc::clone(handle),
                name: name.clone(),
                seen,
                observers: AtomicUsize::new(0),
                observed: Arc::default(),
                seats: Mutex::new(Vec::new()),
                terms: Mutex::new(Vec::new()),
                sought: Mutex::new(Vec::new()),
                listens: Level::new(false),
                _ends: ends,
            });
            task = Some((Arc::downgrade(&hub), see, end));
            hub
        });
        if let Some((weak, see, end)) = task {
            let (handle, channel) = (Arc::clone(handle), election::channel(name));
            let run = async move {
                let (hear, heard) = mpsc::unbounded_channel();
                let Some(_subscription) = handle.listen_to(channel, hear).await else { return };
                tokio::select! {
                    biased;
                    _ = end => {}
                    _ = run(weak, handle, &see.0, heard) => {}
                }
            };
            // A forked process has no driver, and its calls fail by themselves.
            let _ = hub.handle.spawn(Box::pin(run));
        }
        hub
    }

    /// Lets the leader find a candidate.
    pub(super) fn sit(self: &Arc<Self>, candidate: &Arc<str>, owner: Owner) -> Seat {
        let id = self.handle.next_id();
        lock(&self.seats).push((id, Arc::clone(candidate), owner));
        Seat { hub: Arc::clone(self), id }
    }

    /// Brings the requests of others to a term.
    pub(super) fn listen_for(&self, asks: &Arc<Asks>) {
        let mut terms = lock(&self.terms);
        terms.retain(|term| term.strong_count() > 0);
        terms.push(Arc::downgrade(asks));
    }

    /// Says something to all candidates and observers.
    pub(super) fn say(&self, message: &Message) {
        self.handle.tell(election::say(&self.name, message));
    }

    /// Looks for a waiting candidate. Returns the wire owner of its attempts.
    pub(super) async fn seek(&self, candidate: &str) -> Option<WireOwner> {
        self.question(|request| Message::Seek { request, candidate: candidate.to_owned() }).await
    }

    /// Asks the leader of a term to end it. Returns its wire owner, if it has heard.
    pub(super) async fn ask(&self, term: u64, successor: Option<String>) -> Option<WireOwner> {
        self.question(|request| Message::Ask { request, term, successor }).await
    }

    /// Says something until somebody answers, for [`ANSWER_WITHIN`].
    async fn question(&self, ask: impl FnOnce(String) -> Message) -> Option<WireOwner> {
        let request = WireOwner::new(self.handle.client(), self.handle.next_id().0).to_string();
        let (answer, mut answered) = oneshot::channel();
        {
            let mut sought = lock(&self.sought);
            sought.retain(|(_, waiting)| !waiting.is_closed());
            sought.push((request.clone(), answer));
        }
        let question = ask(request);
        // A leader that has heard may end its term before a second question, so the first answer must be heard.
        tokio::select! {
            biased;
            () = self.listens.until(|listens| listens.then_some(())) => {}
            () = sleep(&self.handle, ANSWER_WITHIN) => return None,
        }
        // The other side hears nothing before it is subscribed, nor a candidate before it is refused.
        let mut pause = ASK_AGAIN;
        while pause < ANSWER_WITHIN {
            self.say(&question);
            tokio::select! {
                biased;
                owner = &mut answered => return owner.ok(),
                () = sleep(&self.handle, pause) => pause *= 2,
            }
        }
        None
    }

    /// Takes a message. Returns true if it may announce a change.
    fn take(&self, message: &[u8]) -> bool {
        match Message::read(message) {
            Some(Message::Seek { request, candidate }) => {
                if let Some(owner) = self.waiting(&candidate) {
                    self.say(&Message::Here { request, owner });
                }
                false
            }
            Some(Message::Here { request, owner }) => {
                let mut sought = lock(&self.sought);
                if let Some(at) = sought.iter().position(|(waiting, _)| *waiting == request) {
                    let _ = sought.swap_remove(at).1.send(owner);
                }
                false
            }
            Some(Message::Ask { request, term, successor }) => {
                if let Some(asks) = self.leading(term) {
                    // A transfer to the leader itself is done.
                    match successor {
                        Some(to) if *to == *asks.candidate => {}
                        Some(to) => asks.ask(Asked::Transfer(to.into())),
                        None => asks.ask(Asked::Requested),
                    }
                    self.say(&Message::Here { request, owner: asks.owner });
                }
                false
            }
            Some(Message::PassedTo(owner)) => {
                if owner.client() == self.handle.client() {
                    // The lock's own waiters hear nothing of a transfer, so that the other candidates stay asleep.
                    let subject = self.subject();
                    for channel in subject.channels(owner) {
                        let _ = self.handle.step(Event::Message(channel));
                    }
                }
                true
            }
            _ => true,
        }
    }

    /// Returns a term of this client that has not ended.
    fn leading(&self, token: u64) -> Option<Arc<Asks>> {
        let terms: Vec<_> = lock(&self.terms).iter().filter_map(Weak::upgrade).collect();
        terms.into_iter().find(|asks| asks.token == token && !asks.is_over())
    }

    /// Returns the wire owner of a candidate's attempts, if it is the first of this client that waits.
    fn waiting(&self, candidate: &str) -> Option<WireOwner> {
        let owners: Vec<_> =
            lock(&self.seats).iter().filter(|seat| *seat.1 == *candidate).map(|seat| seat.2).collect();
        let subject = self.subject();
        let find = |owner| self.handle.read(|engine, _| engine.wire_owner_of_wait(&subject, owner)).ok()?;
        owners.into_iter().find_map(find)
    }

    fn subject(&self) -> Subject {
        Subject::new(&self.name, with_tokens(Tokens::Hybrid))
    }
}

/// Hears and asks, until the hub is gone.
async fn run(
    hub: Weak<Hub>,
    handle: Arc<Handle>,
    see: &Level<Sight>,
    mut heard: mpsc::UnboundedReceiver<Heard>,
) -> Option<()> {
    let mut asked = 0_u64;
    let mut next = Moment::default();
    loop {
        let now_hub = hub.upgrade()?;
        let mut is_due = now_hub.observers.load(Ordering::SeqCst) > 0 && handle.now() >= next;
        while let Ok(news) = heard.try_recv() {
            is_due |= take(&now_hub, news);
        }
        if is_due && now_hub.observers.load(Ordering::SeqCst) > 0 {
            let jitter = spread(JITTER, handle.client().seed().wrapping_add(asked));
            asked += 1;
            // Messages that come meanwhile wait, and lead to the next question.
            next = handle.now() + ask(&now_hub, see).await + jitter;
            continue;
        }
        let is_observed = now_hub.observers.load(Ordering::SeqCst) > 0;
        let pause = if is_observed { next.since(handle.now()) } else { Duration::MAX };
        let observed = Arc::clone(&now_hub.observed);
        // A sleeping task does not keep the hub.
        drop(now_hub);
        let news = tokio::select! {
            biased;
            news = heard.recv() => Some(news?),
            () = sleep_or_never(&handle, pause) => None,
            () = observed.notified() => {
                next = Moment::default();
                None
            }
        };
        if let Some(news) = news
            && take(&*hub.upgrade()?, news)
        {
            next = Moment::default();
        }
    }
}

/// Takes what was heard. Returns true if a question is due.
fn take(hub: &Hub, heard: Heard) -> bool {
    match heard {
        // What was said before is lost.
        Heard::Listening(_) => {
            hub.listens.change(|listens| *listens = true);
            true
        }
        Heard::Message(_, message) => hub.take(&message),
    }
}

async fn sleep_or_never(handle: &Arc<Handle>, pause: Duration) {
    if pause == Duration::MAX {
        std::future::pending::<()>().await;
    }
    sleep(handle, pause).await;
}

/// Asks who leads. Returns the time until the next question, without its jitter.
async fn ask(hub: &Hub, see: &Level<Sight>) -> Duration {
    let at = hub.handle.now();
    let answer = hub.handle.query(election::leader(&hub.name), election::read_leader).await;
    let Ok(leader) = answer else {
        // Observers of a closed client end with the driver.
        if matches!(&answer, Err(error) if error.is_closed()) {
            return RETRY;
        }
        let now = hub.handle.now();
        see.change(|sight| {
            let Some(seen) = &mut sight.last else { return };
            let lease = seen.known_lease().unwrap_or(Duration::ZERO);
            if now >= seen.at + lease && !std::mem::replace(&mut seen.is_outdated, true) {
                sight.version += 1;
            }
        });
        return RETRY;
    };
    let pause = match &leader {
        None => ASK_LEADERLESS,
        Some(leader) => leader.remaining.map_or(ASK_EVERY, |left| (left + AFTER_LEASE).min(ASK_EVERY)),
    };
    see.change(|sight| {
        sight.version += 1;
        sight.last = Some(Seen { at, leader, is_outdated: false });
    });
    pause
}
