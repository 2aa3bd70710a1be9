//! The handle of an election: its settings, and one term by hand.
//!
//! Invariant: a candidate keeps nothing on the server. Only a claimed grant of the lock is a term.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::recipe::election::{self, Announcement, INFO_MAX, check_candidate};
use leasehold_proto::recipe::fenced::Tokens;
use leasehold_proto::{Confirm, Owner};

use super::hub::Hub;
use super::observer::{Leader, Observer, State};
use super::policy::{Gate, OnLost, Stop, Stopper};
use super::term::Term;
use crate::error::{
    About, AcquireError, AcquireErrorKind, InspectError, InspectErrorKind, RunError, Subject, SubjectKind,
};
use crate::lock::{Fenced, Lock};
use crate::runtime::shared::sleeping::sleep;

/// The lease of a leader, a third of the client's default, because an election is about quick failover.
const WATCHDOG: Duration = Duration::from_secs(10);
/// The time that a body has to end by itself.
const GRACE: Duration = Duration::from_secs(20);
/// The time for which a gate is closed before the leader is asked, and open before attempts begin.
const HYSTERESIS: Duration = Duration::from_secs(5);
/// The pause after an involuntary end, and its longest repetition.
const REST: Duration = Duration::from_secs(1);
/// The delay of a candidate for each step of its priority.
const STEP: Duration = Duration::from_millis(500);
/// The lowest priority.
const PRIORITY_MAX: u32 = 20;

/// An election of one leader among all processes that use the same server. Cheap to clone.
///
/// [`Client::election`](crate::Client::election) creates it. See the [module](crate::election).
///
/// # Examples
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::Client::connect("memory://").await?;
/// let election = client.election("scheduler").candidate("host-a:4711").watchdog(Duration::from_secs(5));
/// let term = election.campaign().await?;
/// assert!(term.is_valid());
/// term.resign().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Election {
    lock: Lock<Fenced>,
    said: Announcement,
    pub(super) lease: Duration,
    pub(super) grace: Duration,
    wait: Option<Duration>,
    pub(super) on_lost: OnLost,
    pub(super) rest: Duration,
    pub(super) max_term: Option<Duration>,
    pub(super) gate: Gate,
    pub(super) unhealthy_for: Duration,
    pub(super) healthy_for: Duration,
    delay: Duration,
    pub(super) stop: Arc<Stop>,
}

impl Election {
    pub(crate) fn new(lock: Lock<Fenced>, (host, pid): (String, u32)) -> Self {
        let candidate = format!("{host}:{pid}");
        Self {
            // Defaults of the client that bound a hold would end terms without asking the leader.
            lock: lock
                .map_terms(|terms| terms.unbounded().standing_by())
                .tokens(Tokens::Hybrid)
                .hand_off(Duration::ZERO)
                .non_reentrant()
                .watchdog(WATCHDOG),
            said: Announcement { candidate, info: String::new(), host, pid },
            lease: WATCHDOG,
            grace: GRACE,
            wait: None,
            on_lost: OnLost::Cancel,
            rest: REST,
            max_term: None,
            gate: Gate::new(),
            unhealthy_for: HYSTERESIS,
            healthy_for: HYSTERESIS,
            delay: Duration::ZERO,
            stop: Arc::default(),
        }
    }

    /// Sets the name of this candidate (default: `host:pid`), by which observers know it and leaders find it. Give each
    /// candidate a name of its own.
    ///
    /// # Panics
    /// Panics if the name is empty, longer than 255 bytes, or has control characters.
    #[must_use]
    #[track_caller]
    pub fn candidate(mut self, candidate: &str) -> Self {
        expect_candidate(candidate);
        candidate.clone_into(&mut self.said.candidate);
        self
    }

    /// Sets a text for observers, such as a version and a region (default: none). At most 512 bytes of it are kept.
    #[must_use]
    pub fn info(mut self, info: &str) -> Self {
        let end = (0..=INFO_MAX.min(info.len())).rev().find(|at| info.is_char_boundary(*at));
        info[..end.unwrap_or_default()].clone_into(&mut self.said.info);
        self
    }

    /// Sets the lease that the leader renews, from 3 ms to 365 days (default 10 s). If the leader dies, another candidate leads
    /// after at most this time.
    #[must_use]
    pub fn watchdog(mut self, lease: Duration) -> Self {
        (self.lock, self.lease) = (self.lock.watchdog(lease), lease);
        self
    }

    /// Sets the time that a body of [`lead`](Self::lead) has to end by itself when it is asked to (default 20 s). The
    /// lease stays renewed until then. Afterwards the body is dropped, and then the lock is released.
    #[must_use]
    pub fn grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// Limits the wait of [`campaign`](Self::campaign) (default: no limit). [`lead`](Self::lead) waits as long as it takes.
    #[must_use]
    pub fn wait(self, wait: Duration) -> Self {
        Self { wait: Some(wait), ..self }
    }

    /// Sets the effect of a lost lease on the body of [`lead`](Self::lead) (default: [`OnLost::Cancel`]).
    #[must_use]
    pub fn on_lost(self, on_lost: OnLost) -> Self {
        Self { on_lost, ..self }
    }

    /// Stops the renewal of a leader that has not called [`Term::beat`] for this long (default: renews while the process
    /// lives). The term is then lost for [`LostReason::Silent`](crate::LostReason::Silent), and a body that hangs no longer
    /// keeps the others from leading.
    #[must_use]
    pub fn silent_for(mut self, most: Duration) -> Self {
        self.lock = self.lock.silent_for(most);
        self
    }

    /// Sets how many replicas confirm a term (default: those of the client). See
    /// [`HoldTerms::replicas`](crate::HoldTerms::replicas).
    #[must_use]
    pub fn replicas(mut self, policy: Confirm) -> Self {
        self.lock = self.lock.replicas(policy);
        self
    }

    /// Sets the pause of [`lead`](Self::lead) after an involuntary end (default 1 s). It doubles with each such end up to
    /// 30 s, until a term has lasted for a minute.
    #[must_use]
    pub fn rest(self, rest: Duration) -> Self {
        Self { rest, ..self }
    }

    /// Limits the length of a term of [`lead`](Self::lead) (default: no limit). The body is asked to end, as by a stop, and
    /// the candidate campaigns again after a lease.
    #[must_use]
    pub fn max_term(self, most: Duration) -> Self {
        Self { max_term: Some(most), ..self }
    }

    /// Lets [`lead`](Self::lead) campaign only while the gate is open.
    ///
    /// # Examples
    /// See [`Gate`].
    #[must_use]
    pub fn when(mut self, gate: &Gate) -> Self {
        self.gate = gate.clone();
        self
    }

    /// Sets the time for which the gate has to be closed before a leader is asked to end its term (default 5 s).
    #[must_use]
    pub fn unhealthy_for(self, unhealthy_for: Duration) -> Self {
        Self { unhealthy_for, ..self }
    }

    /// Sets the time for which the gate has to be open again before this candidate makes attempts (default 5 s).
    #[must_use]
    pub fn healthy_for(self, healthy_for: Duration) -> Self {
        Self { healthy_for, ..self }
    }

    /// Sets the priority: 0 (default) goes first, 20 last; higher numbers count as 20. A candidate of priority k leaves a free
    /// election to better ones for k times 500 ms, and takes the lead from nobody. A leader finds only candidates of priority
    /// 0 for a [transfer](Term::transfer_to), since the others do not wait in the queue.
    #[must_use]
    pub fn priority(self, priority: u32) -> Self {
        Self { delay: STEP * priority.min(PRIORITY_MAX), ..self }
    }

    /// Campaigns until this candidate leads, for one term by hand. [`lead`](Self::lead) does this, runs a body and campaigns
    /// again. The gate and the [`stopper`](Self::stopper) do not apply.
    ///
    /// A wait that is shorter than the delay of this candidate's [`priority`](Self::priority) ends as busy. A wait of zero
    /// makes one attempt, whatever the priority.
    ///
    /// # Errors
    /// [`RunError::Busy`] if another candidate led for the whole [`wait`](Self::wait), else [`RunError::Acquire`].
    ///
    /// # Cancel safety
    /// Dropping the future ends the candidacy. The client undoes a grant in flight, so nothing stays locked.
    ///
    /// # Losing the lease
    /// See [`Term`].
    ///
    /// # Examples
    /// See [`Election`].
    pub async fn campaign(&self) -> Result<Term, RunError> {
        let busy = || RunError::Busy { subject: self.subject(), wait: self.wait.unwrap_or_default() };
        match self.wait {
            None => Ok(self.elected().await?),
            Some(wait) if wait.is_zero() => self.attempt(&self.owned().1).await?.ok_or_else(busy),
            Some(wait) => tokio::select! {
                biased;
                term = self.elected() => Ok(term?),
                () = sleep(self.lock.handle(), wait) => Err(busy()),
            },
        }
    }

    /// Returns the present leader, or `None` if nobody leads. Asks the server once.
    ///
    /// # Errors
    /// [`InspectError`] if the server does not answer, or has another kind of object under this name.
    ///
    /// # Cancel safety
    /// This method is cancel safe, since it changes nothing.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let election = client.election("scheduler");
    /// assert!(election.leader().await?.is_none());
    /// let term = election.campaign().await?;
    /// let leader = election.leader().await?.expect("this process leads");
    /// assert!(leader.is_me && leader.term == Some(term.token()));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn leader(&self) -> Result<Option<Leader>, InspectError> {
        let asked = async {
            let name = self.lock.name.as_ref().map_err(|bad| InspectErrorKind::from(bad.clone()))?;
            let handle = self.lock.handle();
            let leader = handle.query(election::leader(name), election::read_leader).await?;
            Ok::<_, InspectErrorKind>(leader.map(|leader| Leader::of(handle, leader, Duration::ZERO)))
        };
        asked.await.about(|| self.subject())
    }

    /// Returns an observer of who leads, which begins to ask at once.
    ///
    /// # Panics
    /// Panics if the name of the election cannot be used, or in a forked process.
    ///
    /// # Examples
    /// See [`Observer::changed`].
    #[must_use]
    #[track_caller]
    pub fn observe(&self) -> Observer {
        let hub = self.hub().expect("the name can be used, in the process of the client");
        Observer::new(&hub)
    }

    /// Asks the present leader to end its term, whichever process it is in. Returns true once it has heard, and false if
    /// nobody leads, or no leader answers within a second.
    ///
    /// # Errors
    /// As [`leader`](Self::leader).
    ///
    /// # Cancel safety
    /// Dropping the future does not take back a request that was sent.
    ///
    /// # Examples
    /// See [`Term::asked`].
    pub async fn request_resign(&self) -> Result<bool, InspectError> {
        self.request(None).await
    }

    /// Asks the present leader to pass its term on to this candidate. Returns true once it has heard, as
    /// [`request_resign`](Self::request_resign) does.
    ///
    /// # Errors
    /// As [`leader`](Self::leader).
    ///
    /// # Cancel safety
    /// Dropping the future does not take back a request that was sent.
    ///
    /// # Panics
    /// Panics if no candidate can have this name.
    #[track_caller]
    pub fn request_transfer(
        &self,
        candidate: &str,
    ) -> impl Future<Output = Result<bool, InspectError>> + Send {
        expect_candidate(candidate);
        self.request(Some(candidate.to_owned()))
    }

    async fn request(&self, successor: Option<String>) -> Result<bool, InspectError> {
        let Some(term) = self.leader().await?.and_then(|leader| leader.term) else { return Ok(false) };
        let Ok(name) = &self.lock.name else { return Ok(false) };
        Ok(Hub::of(self.lock.handle(), name).ask(term, successor).await.is_some())
    }

    /// Returns a handle that ends the terms of [`lead`](Self::lead) of this election and of its clones.
    ///
    /// # Examples
    /// See [`Stopper::stop`].
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.stop))
    }

    pub(super) fn handle(&self) -> &Arc<crate::runtime::shared::Handle> {
        self.lock.handle()
    }

    pub(super) fn hub(&self) -> Result<Arc<Hub>, AcquireErrorKind> {
        self.handle().check_process()?;
        let name = self.lock.name.as_ref().map_err(Clone::clone)?;
        Ok(Hub::of(self.lock.handle(), name))
    }

    fn subject(&self) -> Subject {
        Subject { kind: SubjectKind::Election, ..self.lock.subject() }
    }

    /// Returns the lock for one term, whose hold tells operators who leads.
    fn owned(&self) -> (Owner, Lock<Fenced>) {
        let owner = Owner::unique();
        let Announcement { candidate, info, .. } = &self.said;
        let note = format!("leads as {candidate} {info}");
        (owner, self.lock.clone().owned_by(&owner).note(note.trim_end()))
    }

    /// Waits until this candidate leads.
    pub(super) async fn elected(&self) -> Result<Term, AcquireError> {
        let hub = self.hub().about(|| self.subject())?;
        let (owner, lock) = self.owned();
        if !self.delay.is_zero() {
            return self.elected_later(&lock).await;
        }
        let _seat = hub.sit(&self.said.candidate.as_str().into(), owner);
        let guard = lock.lock().await.map_err(|error| self.about(error))?;
        Ok(Term::new(&hub, guard, self.said.clone()))
    }

    /// Waits until the election has been free for the delay of this priority.
    async fn elected_later(&self, lock: &Lock<Fenced>) -> Result<Term, AcquireError> {
        let mut view = self.observe();
        loop {
            // A closed client tells nothing new, and its attempt says why.
            if view.current().leader().is_some() && view.changed().await.is_some() {
                continue;
            }
            tokio::select! {
                biased;
                Some(State::Leader(_)) = view.changed() => continue,
                () = sleep(self.handle(), self.delay) => {}
            }
            if let Some(term) = self.attempt(lock).await? {
                return Ok(term);
            }
        }
    }

    /// Makes one attempt.
    async fn attempt(&self, lock: &Lock<Fenced>) -> Result<Option<Term>, AcquireError> {
        let hub = self.hub().about(|| self.subject())?;
        let guard = lock.try_lock().await.map_err(|error| self.about(error))?;
        Ok(guard.map(|guard| Term::new(&hub, guard, self.said.clone())))
    }

    fn about(&self, error: AcquireError) -> AcquireError {
        AcquireError { subject: self.subject(), ..error }
    }
}

#[track_caller]
fn expect_candidate(name: &str) {
    assert!(check_candidate(name), "the name of a candidate has 1 to 255 bytes without control characters");
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election")
            .field("name", &self.lock.name)
            .field("candidate", &self.said.candidate)
            .finish_non_exhaustive()
    }
}
