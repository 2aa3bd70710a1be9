//! The guard of a quorum lock: a hold of a majority of the nodes.
//!
//! Invariant: [`quorum::Hold`] decides whether the hold is valid, lost or over, and which node holds to release.
//!
//! # How it works
//! Each node has a *node hold*, its part of the hold, which that node's own client renews. Each node hold has a
//! *renewal task* on that client's thread. The task waits until the node hold is lost, and acquires it again if the
//! lock has a watchdog. A node that restarted joins again as soon as it counts. When the whole hold is lost, the tasks
//! end and release the remaining node holds.

use std::collections::BTreeMap;
use std::fmt;
use std::future::pending;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::{AbortHandle, Either, FutureExt, abortable, join_all, select, select_all};
use leasehold_proto::engine::{LostReason, Wait};
use leasehold_proto::quorum::{self, Quorum, Undo};

use super::node::{Answer, Attempt, Node, may_grant};
use crate::error::{
    AcquireErrorKind, Cause, EnsureError, EnsureErrorKind, Forked, NodeError, ReleaseError, ReleaseErrorKind,
    Subject,
};
use crate::lock::guard::{Asker, Guard, ReleaseOutcome};
use crate::lock::handle::Lock;
use crate::lock::kind::Sealed;
use crate::runtime::shared::Handle;

/// A hold of a majority of the nodes, released when dropped.
///
/// # Losing the lease
/// The hold is valid as long as the node holds of a majority are. A minority of the nodes may fail, restart or lose
/// its data. As with every lock, a holder that is paused past its validity can still write.
#[must_use = "dropping a guard releases the lock at once"]
pub struct QuorumGuard {
    holds: Arc<NodeHolds>,
    renewals: Vec<AbortHandle>,
    pub(super) subject: Subject,
    /// The longest extension, or `None` if nodes lose nothing in a restart. A restarted node counts again after it.
    longest: Option<Duration>,
}

struct NodeHolds {
    quorum: Quorum,
    state: Mutex<State>,
    /// The handle of the first node, which knows the process that the hold belongs to.
    handle: Arc<Handle>,
}

struct State {
    guards: Vec<Option<Guard>>,
    hold: quorum::Hold,
    /// The number of node holds that were added late or again.
    changes: u64,
    /// The waiters for the loss or for a change, by number.
    wakers: BTreeMap<u64, Waker>,
    last_wait: u64,
}

/// The node hold of one node, owned by its renewal task.
struct NodeHold {
    all: Arc<NodeHolds>,
    node: usize,
}

/// A wait until the state has a value, such as the reason of a loss. Dropping the wait removes its waker.
struct Until<'a, T, F> {
    holds: &'a NodeHolds,
    number: u64,
    read: F,
    /// What the wait ends with in a forked process, if it ends there.
    forked: Option<T>,
}

/// Returns the validity of each node hold.
pub(super) fn validities(guards: &[Option<Guard>]) -> Vec<Option<Duration>> {
    guards.iter().map(|guard| guard.as_ref().map(Guard::remaining)).collect()
}

impl State {
    fn remaining(&self) -> Duration {
        self.hold.remaining(&validities(&self.guards))
    }

    /// Returns the reason of a loss that no renewal task has noticed yet, as in a process that was frozen.
    fn lost_by_the_clock(&self) -> Option<LostReason> {
        let has_holds = self.guards.iter().any(Option::is_some);
        let is_over = has_holds && self.remaining().is_zero();
        is_over.then(|| self.first_loss().unwrap_or(LostReason::Unreachable))
    }

    /// Returns the reason of the first node hold that is lost.
    fn first_loss(&self) -> Option<LostReason> {
        self.guards.iter().flatten().find_map(|hold| hold.watch().now_or_never())
    }

    /// Returns the validities of all node holds but one.
    fn without(&self, node: usize) -> Vec<Option<Duration>> {
        let mut validities = validities(&self.guards);
        validities[node] = None;
        validities
    }
}

impl NodeHolds {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the state for a call of the application. In a forked child, a thread that exists only in the parent can
    /// hold the mutex forever, so the process is checked first.
    fn enter(&self) -> Result<MutexGuard<'_, State>, Forked> {
        self.handle.check_process()?;
        Ok(self.lock())
    }

    fn remaining(&self) -> Duration {
        self.enter().map_or(Duration::ZERO, |state| state.remaining())
    }

    /// Adds a node hold that was granted late or again.
    fn add(&self, node: usize, guard: Guard) {
        let mut state = self.lock();
        let reason = state.first_loss();
        let validities = validities(&state.guards);
        match state.hold.join(&validities, reason) {
            Undo::Nothing => {
                state.guards[node] = Some(guard);
                Self::changed(state);
            }
            Undo::NodeHold => {}
            Undo::All => Self::release_all(state),
        }
    }

    /// Removes a node hold that is lost. A node without a hold has no part in the lock, and its end is no reason of a
    /// loss.
    fn remove(&self, node: usize, reason: LostReason) {
        let mut state = self.lock();
        if state.guards[node].is_none() {
            return;
        }
        let without = state.without(node);
        match state.hold.leave(&without, reason) {
            Undo::Nothing => {}
            Undo::NodeHold => {
                let gone = state.guards[node].take();
                drop(state);
                drop(gone);
            }
            Undo::All => Self::release_all(state),
        }
    }

    /// Releases all node holds, and wakes the waiters for the loss.
    fn release_all(mut state: MutexGuard<'_, State>) {
        let left: Vec<Guard> = state.guards.iter_mut().filter_map(Option::take).collect();
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        drop(left);
        wakers.into_values().for_each(Waker::wake);
    }

    /// Counts a node hold that was added, and wakes who waits for one.
    fn changed(mut state: MutexGuard<'_, State>) {
        state.changes += 1;
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_values().for_each(Waker::wake);
    }

    fn loss(&self) -> impl Future<Output = LostReason> + Unpin {
        self.until(|state| state.hold.lost().or_else(|| state.lost_by_the_clock()), Some(LostReason::Closed))
    }

    fn until<T, F: Fn(&State) -> Option<T>>(&self, read: F, forked: Option<T>) -> Until<'_, T, F> {
        let number = self.enter().map_or(0, |mut state| {
            state.last_wait += 1;
            state.last_wait
        });
        Until { holds: self, number, read, forked }
    }
}

impl<T: Clone, F: Fn(&State) -> Option<T>> Future for Until<'_, T, F> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // Declared before the lock is taken, and dropped after it is let go, since both run foreign code.
        let waker = cx.waker().clone();
        let Ok(mut state) = self.holds.enter() else {
            return self.forked.clone().map_or(Poll::Pending, Poll::Ready);
        };
        if let Some(value) = (self.read)(&state) {
            return Poll::Ready(value);
        }
        let known = state.wakers.insert(self.number, waker);
        drop(state);
        drop(known);
        Poll::Pending
    }
}

impl<T, F> Drop for Until<'_, T, F> {
    fn drop(&mut self) {
        // A forked process has no waker to remove.
        let known = self.holds.enter().map(|mut state| state.wakers.remove(&self.number));
        drop(known);
    }
}

impl Drop for NodeHold {
    fn drop(&mut self) {
        // A client that ends drops its renewal tasks, even if they have not seen the loss of their node hold.
        self.all.remove(self.node, LostReason::Closed);
    }
}

/// Keeps one node hold, until the guard is dropped or the node cannot grant again.
async fn renew(hold: NodeHold, lock: Lock<Node>, watched: bool, attempt: Option<Attempt>) {
    let (holds, node) = (&*hold.all, hold.node);
    let mut answer: Option<Answer> = None;
    if let Some(attempt) = attempt {
        answer = Some(attempt.await.1);
    }
    loop {
        match answer.take() {
            Some(Ok(Some(guard))) => holds.add(node, guard),
            Some(Err(error)) if !may_join(&error) => return,
            Some(Ok(None) | Err(_)) | None => {}
        }
        let watch = holds.lock().guards[node].as_ref().map(Guard::watch);
        if let Some(watch) = watch {
            let reason = watch.await;
            holds.remove(node, reason);
        }
        if !watched || holds.lock().hold.lost().is_some() {
            return;
        }
        answer = match select(pin!(lock.acquire_at_node(|_| Wait::Forever)), holds.loss()).await {
            Either::Left((again, _)) => Some(again),
            Either::Right(_) => return,
        };
    }
}

/// Returns true if another attempt may give the node its part of the hold.
fn may_join(error: &NodeError) -> bool {
    let came_too_late = matches!(
        error,
        NodeError::Acquire(AcquireErrorKind::LeaseTooShort { .. } | AcquireErrorKind::Unclaimed)
    );
    came_too_late || may_grant(error)
}

impl QuorumGuard {
    /// Creates the guard from these votes, and starts a renewal task for each node. The tasks also complete the
    /// attempts in flight.
    pub(super) fn new(nodes: &[Lock<Node>], votes: Vec<Option<Guard>>, attempts: Vec<Attempt>) -> Self {
        // A node of a watched lock acquires its part of the hold again after it lost it.
        let watched = nodes.iter().all(|node| node.terms.is_watched());
        let quorum = Quorum::of(nodes.len());
        let hold = quorum::Hold::new(quorum);
        let state =
            Mutex::new(State { guards: votes, hold, changes: 0, wakers: BTreeMap::new(), last_wait: 0 });
        let holds = Arc::new(NodeHolds { quorum, state, handle: Arc::clone(nodes[0].handle()) });
        let mut late: BTreeMap<usize, Attempt> =
            attempts.into_iter().map(|attempt| (attempt.node, attempt)).collect();
        let mut renewals = Vec::with_capacity(nodes.len());
        for (node, lock) in nodes.iter().enumerate() {
            let hold = NodeHold { all: Arc::clone(&holds), node };
            let renewal = renew(hold, lock.clone(), watched, late.remove(&node));
            let (renewal, abort) = abortable(renewal);
            // A forked process starts no task, because the hold belongs to the parent.
            let _ = lock.handle().spawn(renewal.map(|_| ()).boxed());
            renewals.push(abort);
        }
        let longest = Some(nodes[0].kind.uptime()).filter(|uptime| !uptime.is_zero());
        Self { holds, renewals, subject: nodes[0].subject(), longest }
    }

    /// Returns what spans have in place of the name, or nothing if no node hold is left.
    pub(super) fn shown_name(&self) -> String {
        let shown = |state: MutexGuard<'_, State>| {
            state.guards.iter().flatten().next().map(|guard| guard.shown_name().into_owned())
        };
        self.holds.enter().ok().and_then(shown).unwrap_or_default()
    }

    /// Returns true if a majority is valid now, by the clock.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Returns the time for which a majority is valid without a renewal, or zero if the hold is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.holds.remaining()
    }

    /// Returns the number of nodes on which the hold is valid now.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let nodes = ["memory://one", "memory://two", "memory://three"];
    /// # let redlock = leasehold::Redlock::builder().nodes_persist_every_write().connect(nodes).await?;
    /// let guard = redlock.lock("order:42").lock().await?;
    /// assert!(guard.votes() >= 2, "of three");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn votes(&self) -> usize {
        self.holds.enter().map_or(0, |state| quorum::votes(&validities(&state.guards)))
    }

    /// Completes when the majority is lost, and returns the reason for the loss of the node that decided it.
    ///
    /// # Cancel safety
    /// This method is cancel safe, as [`Guard::lost`] is. In a forked process it completes immediately with
    /// [`LostReason::Closed`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # async fn work() {}
    /// # let nodes = ["memory://one", "memory://two", "memory://three"];
    /// # let redlock = leasehold::Redlock::builder().nodes_persist_every_write().connect(nodes).await?;
    /// let guard = redlock.lock("order:42").lock().await?;
    /// tokio::select! {
    ///     () = work() => {}
    ///     reason = guard.lost() => eprintln!("stopped: {reason}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lost(&self) -> LostReason {
        self.holds.loss().await
    }

    /// Completes when somebody asks for the lock at any of the nodes. See [`Guard::asked`].
    ///
    /// # Cancel safety
    /// As [`Guard::asked`].
    ///
    /// # Losing the lease
    /// As [`Guard::asked`].
    ///
    /// # Examples
    /// See [`Guard::asked`].
    pub async fn asked(&self) -> Asker {
        loop {
            let asking = self.holds.enter().map(|state| {
                let asking = state.guards.iter().flatten().map(|guard| guard.asking().boxed());
                (asking.collect::<Vec<_>>(), state.changes)
            });
            let Ok((asking, changes)) = asking else { return pending().await };
            let changed = self.holds.until(move |state| (state.changes != changes).then_some(()), None);
            let asked =
                async { if asking.is_empty() { pending().await } else { select_all(asking).await.0 } };
            if let Either::Left((by, _)) = select(pin!(asked), pin!(changed)).await {
                return by;
            }
        }
    }

    /// Ensures that a majority stays valid for at least this long.
    ///
    /// # Errors
    /// [`EnsureError`] of one node, if too many nodes fail to leave a majority.
    ///
    /// # Cancel safety
    /// As [`Guard::ensure`].
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let nodes = ["memory://one", "memory://two", "memory://three"];
    /// # let redlock = leasehold::Redlock::builder().nodes_persist_every_write().connect(nodes).await?;
    /// let guard = redlock.lock("order:42").lock().await?;
    /// guard.ensure(Duration::from_secs(5)).await?;
    /// // ... what takes less than 5 s ...
    /// # Ok(())
    /// # }
    /// ```
    pub async fn ensure(&self, least: Duration) -> Result<(), EnsureError> {
        let ensuring: Vec<_> = match self.holds.enter() {
            Ok(state) => state.guards.iter().flatten().map(|guard| guard.ensuring(least)).collect(),
            Err(forked) => return Err(EnsureErrorKind::from(forked).of(self.subject.clone())),
        };
        let failed = join_all(ensuring).await.into_iter().find_map(Result::err);
        match failed {
            Some(error) if self.remaining() < least => Err(error),
            None if self.remaining() < least => {
                let reason = self.holds.lock().hold.lost().unwrap_or(LostReason::Unreachable);
                Err(EnsureErrorKind::Lost(reason).of(self.subject.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Extends the hold on a majority: gives it a lease of this length, counted from now. See [`Guard::extend`].
    ///
    /// # Errors
    /// [`EnsureError`] of one node, if too many nodes fail to leave a majority. [`EnsureErrorKind::TooLong`] for more than the
    /// [longest lease](super::RedlockBuilder::longest_lease) of the fleet, since a node that restarts without its data counts
    /// again after that time.
    ///
    /// # Cancel safety
    /// As [`Guard::extend`].
    ///
    /// # Losing the lease
    /// As [`Guard::extend`].
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let nodes = ["memory://one", "memory://two", "memory://three"];
    /// # let redlock = leasehold::Redlock::builder().nodes_persist_every_write().connect(nodes).await?;
    /// let guard = redlock.lock("order:42").lease(Duration::from_secs(60)).lock().await?;
    /// guard.extend(Duration::from_secs(600)).await?;
    /// assert!(guard.remaining() > Duration::from_secs(590));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn extend(&self, lease: Duration) -> Result<(), EnsureError> {
        if let Some(most) = self.longest.filter(|most| lease > *most) {
            return Err(EnsureErrorKind::TooLong { most }.of(self.subject.clone()));
        }
        let extending: Vec<_> = match self.holds.enter() {
            Ok(state) => state.guards.iter().flatten().map(|guard| guard.extending(lease)).collect(),
            Err(forked) => return Err(EnsureErrorKind::from(forked).of(self.subject.clone())),
        };
        let (extended, failed): (Vec<_>, Vec<_>) =
            join_all(extending).await.into_iter().partition(Result::is_ok);
        if extended.len() >= self.holds.quorum.size() {
            return Ok(());
        }
        let lost = || {
            let reason = self.holds.lock().hold.lost().unwrap_or(LostReason::Unreachable);
            Err(EnsureErrorKind::Lost(reason).of(self.subject.clone()))
        };
        failed.into_iter().next().unwrap_or_else(lost)
    }

    /// Releases the lock on every node and reports the outcome.
    ///
    /// # Errors
    /// [`ReleaseError`] if a majority has not confirmed the release. The clients keep trying on every node.
    ///
    /// # Cancel safety
    /// Dropping the future discards the report and does not cancel the releases.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let nodes = ["memory://one", "memory://two", "memory://three"];
    /// # let redlock = leasehold::Redlock::builder().nodes_persist_every_write().connect(nodes).await?;
    /// let guard = redlock.lock("order:42").lock().await?;
    /// assert_eq!(guard.release().await?, leasehold::ReleaseOutcome::Released);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(self) -> Result<ReleaseOutcome, ReleaseError> {
        if let Err(forked) = self.holds.handle.check_process() {
            return Err(ReleaseErrorKind::from(forked).of(self.subject.clone()));
        }
        let (held, guards) = (self.is_held(), self.end());
        let reports = join_all(guards.into_iter().map(Guard::release)).await;
        let confirmed = reports.iter().filter(|report| report.is_ok()).count();
        let is_released = self.holds.quorum.is_released(confirmed, reports.len() - confirmed);
        match reports.into_iter().find_map(Result::err) {
            Some(error) if !is_released => Err(error),
            _ if held => Ok(ReleaseOutcome::Released),
            _ => Ok(ReleaseOutcome::NotHeld),
        }
    }

    /// Consumes the guard without a release, and detaches each node hold as [`Guard::detach`] does.
    pub fn detach(self) {
        self.end().into_iter().for_each(Guard::detach);
    }

    /// Takes the node holds and ends the renewal tasks. Does nothing in a forked process, because both belong to the
    /// parent.
    fn end(&self) -> Vec<Guard> {
        let Ok(mut state) = self.holds.enter() else { return Vec::new() };
        state.hold.end();
        let guards = state.guards.iter_mut().filter_map(Option::take).collect();
        drop(state);
        // The tasks end last, because a task that ends drops its `NodeHold`, which removes a node hold that is still
        // there.
        self.renewals.iter().for_each(AbortHandle::abort);
        guards
    }
}

impl Drop for QuorumGuard {
    fn drop(&mut self) {
        drop(self.end());
    }
}

impl fmt::Debug for QuorumGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuorumGuard").field("votes", &self.votes()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use leasehold_proto::engine::Settings;
    use leasehold_proto::{ClientId, Engine, Moment};

    use super::*;
    use crate::error::ReleaseErrorKind;
    use crate::name::named;
    use crate::runtime::process::Process;
    use crate::runtime::shared::Shared;
    use crate::terms::HoldTerms;

    const SOON: Duration = Duration::from_secs(20);

    /// Creates three nodes whose clients belong to another process, and a hold of them as a forked child has it.
    fn forked() -> QuorumGuard {
        guard_of(|| Process::Parent)
    }

    fn guard_of(process: fn() -> Process) -> QuorumGuard {
        let node = |node: u8| {
            let engine = Engine::new(ClientId::from_random([node; 16]), Settings::default());
            let shared = Shared::new(engine, process(), Moment::default);
            let handle = Handle::new(Arc::new(shared));
            Lock::new(&handle, named("job"), HoldTerms::new(), Node::new(false, Duration::ZERO, SOON))
        };
        QuorumGuard::new(&[1, 2, 3].map(node), vec![None, None, None], Vec::new())
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test that fails instead of hanging")]
    fn a_hold_in_a_forked_process_is_lost_at_once_and_blocks_no_call() {
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let guards = [forked(), forked(), forked()];
            let holds = guards.each_ref().map(|guard| Arc::clone(&guard.holds));
            // Simulates a fork while a thread of the parent held the mutexes.
            let locked = holds.each_ref().map(|holds| holds.lock());
            let [guard, released, kept] = guards;
            let at_once = "a forked process is told at the first poll";
            assert_eq!(guard.lost().now_or_never().expect(at_once), LostReason::Closed);
            assert_eq!((guard.is_held(), guard.remaining(), guard.votes()), (false, Duration::ZERO, 0));
            let ensured = guard.ensure(SOON).now_or_never().expect(at_once);
            assert_eq!(ensured.map_err(|error| error.kind), Err(EnsureErrorKind::Forked));
            let released = released.release().now_or_never().expect(at_once);
            assert_eq!(released.map_err(|error| error.kind), Err(ReleaseErrorKind::Forked));
            kept.detach();
            drop(guard);
            drop(locked);
            tell.send(()).expect("the test waits");
        });
        told.recv_timeout(SOON).expect("nothing fails and nothing waits for the lock");
    }

    #[test]
    fn the_end_of_a_node_without_a_hold_is_no_reason_of_a_loss() {
        let guard = guard_of(Process::current);
        drop(NodeHold { all: Arc::clone(&guard.holds), node: 0 });
        assert_eq!(guard.lost().now_or_never(), None);
    }

    /// A task that nothing wakes.
    struct Task;

    impl std::task::Wake for Task {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a thread that polls while another holds the lock")]
    fn a_waker_is_cloned_before_the_lock_is_taken() {
        let holds = Arc::clone(&guard_of(Process::current).holds);
        let task = Arc::new(Task);
        let (waker, polled) = (Waker::from(Arc::clone(&task)), Arc::clone(&holds));
        let held = holds.lock();
        let (tell, told) = mpsc::channel();
        let poll = std::thread::spawn(move || {
            let mut loss =
                Until { holds: &polled, number: 1, read: |state: &State| state.hold.lost(), forked: None };
            Pin::new(&mut loss).poll(&mut Context::from_waker(&waker)).is_ready()
        });
        std::thread::spawn(move || {
            // The task, its waker, and the clone for the wait.
            while Arc::strong_count(&task) < 3 {
                std::thread::yield_now();
            }
            tell.send(()).expect("the test waits");
        });
        told.recv_timeout(SOON).expect("the clone is made while another thread holds the lock");
        drop(held);
        poll.join().expect("the poll ends");
    }
}
