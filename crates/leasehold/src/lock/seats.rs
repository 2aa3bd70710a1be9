//! A hold of a majority of nodes, as a value.
//!
//! Invariant: a hold that was without a majority for an instant is lost for good, also when a node joins it later.
//! Called by: the quorum lock, which makes guards; users.
//!
//! # How it works
//! Each node has a *seat*: its part of the hold, which that node's own client renews. A *keeper* for each seat runs on
//! that client's thread. It waits until the part is lost, and takes it again where the hold is watched: a node that was
//! restarted joins again as soon as it counts. When the hold is lost the keepers end, and the parts that are left are
//! given back.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::{AbortHandle, Either, FutureExt, abortable, join_all, select};
use leasehold_proto::engine::LostReason;

use super::Lock;
use super::quorum::{Asked, Asking, QuorumLock};
use super::redlock::Node;
use crate::error::{
    AcquireErrorKind, Cause, EnsureError, EnsureErrorKind, ReleaseError, ReleaseErrorKind, Subject,
};
use crate::guard::{Guard, ReleaseOutcome};
use crate::shared::{Forked, Handle};

/// A hold of a majority of the nodes, released when dropped.
///
/// # Losing the lease
/// It may be trusted for as long as a majority of the nodes may: a minority may fail, restart or lose its data. As with
/// every lock, a holder that is paused past that cannot be kept from writing.
#[must_use = "dropping a guard releases the lock at once"]
pub struct QuorumGuard {
    seats: Arc<Seats>,
    keepers: Vec<AbortHandle>,
    subject: Subject,
}

struct Seats {
    quorum: usize,
    state: Mutex<State>,
    /// Of the first node; it knows which process the hold belongs to.
    handle: Arc<Handle>,
}

#[derive(Default)]
struct State {
    guards: Vec<Option<Guard>>,
    /// The guard has gone; whoever comes with a part of it drops that.
    ended: bool,
    lost: Option<LostReason>,
    /// Who waits for the loss, each under a number of its own.
    wakers: BTreeMap<u64, Waker>,
    last_wait: u64,
}

/// A node's seat, in the hands of its keeper.
struct Seat {
    seats: Arc<Seats>,
    node: usize,
}

/// A wait for the loss, forgotten when it is dropped.
struct Loss<'a> {
    seats: &'a Seats,
    number: u64,
}

impl State {
    /// For how long a majority can be trusted: for as long as the `quorum`-th best of the parts.
    fn remaining(&self, quorum: usize) -> Duration {
        if self.lost.is_some() {
            return Duration::ZERO;
        }
        let mut all: Vec<_> = self.guards.iter().flatten().map(Guard::remaining).collect();
        all.sort_unstable_by(|one, other| other.cmp(one));
        all.get(quorum - 1).copied().unwrap_or_default()
    }
}

impl Seats {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock, for what users call. In a forked child it may be taken for ever, by a thread that only the parent has.
    fn enter(&self) -> Result<MutexGuard<'_, State>, Forked> {
        self.handle.check_process()?;
        Ok(self.lock())
    }

    fn remaining(&self) -> Duration {
        self.enter().map_or(Duration::ZERO, |state| state.remaining(self.quorum))
    }

    /// A node has its part again, or late.
    fn take(&self, node: usize, guard: Guard) {
        let mut state = self.lock();
        if state.ended || state.lost.is_some() {
            return;
        }
        // It joins a majority, it does not make one: without it somebody else may have had the lock meanwhile.
        let is_lost = state.remaining(self.quorum).is_zero();
        let reason = state.guards.iter().flatten().find_map(|part| part.watch().now_or_never());
        state.guards[node] = Some(guard);
        if is_lost {
            self.lose(state, reason.unwrap_or(LostReason::Unreachable));
        }
    }

    /// A node's part is gone.
    fn give_up(&self, node: usize, reason: LostReason) {
        let mut state = self.lock();
        if state.ended || state.lost.is_some() {
            return;
        }
        let gone = state.guards[node].take();
        if state.remaining(self.quorum).is_zero() {
            self.lose(state, reason);
        } else {
            drop(state);
        }
        drop(gone);
    }

    /// There is no majority: what is left would only keep others from having one.
    fn lose(&self, mut state: MutexGuard<'_, State>, reason: LostReason) {
        state.lost = Some(reason);
        let left: Vec<Guard> = state.guards.iter_mut().filter_map(Option::take).collect();
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        drop(left);
        wakers.into_values().for_each(Waker::wake);
    }

    fn loss(&self) -> Loss<'_> {
        let number = self.enter().map_or(0, |mut state| {
            state.last_wait += 1;
            state.last_wait
        });
        Loss { seats: self, number }
    }
}

impl Future for Loss<'_> {
    type Output = LostReason;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LostReason> {
        let Ok(mut state) = self.seats.enter() else { return Poll::Ready(LostReason::Closed) };
        if let Some(reason) = state.lost {
            return Poll::Ready(reason);
        }
        let known = state.wakers.insert(self.number, cx.waker().clone());
        drop(state);
        drop(known);
        Poll::Pending
    }
}

impl Drop for Loss<'_> {
    fn drop(&mut self) {
        // In a forked process there is nobody to forget.
        let known = self.seats.enter().map(|mut state| state.wakers.remove(&self.number));
        drop(known);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // A client that ends takes its keepers along, whether they have seen the loss of their part or not.
        self.seats.give_up(self.node, LostReason::Closed);
    }
}

/// Sees to one node's part, until the guard goes or nothing more can be done.
async fn keep(seat: Seat, lock: Lock<Node>, watched: bool, asking: Option<Asking>) {
    let (seats, node) = (&*seat.seats, seat.node);
    let mut asked: Option<Asked> = None;
    if let Some(asking) = asking {
        asked = Some(asking.await.1);
    }
    loop {
        match asked.take() {
            Some(Ok(Some(guard))) => seats.take(node, guard),
            Some(Err(error)) if !may_pass(&error.kind) => return,
            Some(Ok(None) | Err(_)) | None => {}
        }
        let watch = seats.lock().guards.get(node).and_then(Option::as_ref).map(Guard::watch);
        if let Some(watch) = watch {
            let reason = watch.await;
            seats.give_up(node, reason);
        }
        if !watched || seats.lock().lost.is_some() {
            return;
        }
        asked = match select(pin!(lock.lock()), seats.loss()).await {
            Either::Left((again, _)) => Some(again.map(Some)),
            Either::Right(_) => return,
        };
    }
}

/// Whether a node that answers so may be asked again.
fn may_pass(error: &AcquireErrorKind) -> bool {
    match error {
        AcquireErrorKind::Store(source) | AcquireErrorKind::Unknown { source, .. } => {
            source.kind.is_transient()
        }
        AcquireErrorKind::LeaseTooShort { .. } | AcquireErrorKind::Unclaimed => true,
        _ => false,
    }
}

impl QuorumGuard {
    /// Of these votes; the questions still on their way are seen to.
    pub(super) fn new(lock: &QuorumLock, votes: Vec<Option<Guard>>, asking: Vec<Asking>) -> Self {
        let nodes = votes.len();
        let state = Mutex::new(State { guards: votes, ..State::default() });
        let seats =
            Arc::new(Seats { quorum: lock.quorum(), state, handle: Arc::clone(lock.node(0).handle()) });
        let mut late: BTreeMap<usize, Asking> =
            asking.into_iter().map(|asking| (asking.node, asking)).collect();
        let mut keepers = Vec::with_capacity(nodes);
        for node in 0..nodes {
            let node_lock = lock.node(node).clone();
            let handle = Arc::clone(node_lock.handle());
            let seat = Seat { seats: Arc::clone(&seats), node };
            let keeper = keep(seat, node_lock, lock.is_watched(), late.remove(&node));
            let (keeper, abort) = abortable(keeper);
            // In a forked process the hold is the parent's.
            let _ = handle.keep(keeper.map(|_| ()).boxed());
            keepers.push(abort);
        }
        Self { seats, keepers, subject: lock.node(0).subject() }
    }

    /// Whether a majority may be trusted now, by the clock.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// For how long a majority may be trusted unless it is renewed; zero when it is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.seats.remaining()
    }

    /// On how many nodes it is held now.
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
        let held = |state: MutexGuard<'_, State>| {
            state.guards.iter().flatten().filter(|guard| guard.is_held()).count()
        };
        self.seats.enter().map_or(0, held)
    }

    /// Completes when there is no majority any more, and says why the last node that it had was lost.
    ///
    /// # Cancel safety
    /// Cancel safe, as [`Guard::lost`]. In a forked process it completes at once, as [`LostReason::Closed`].
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
        self.seats.loss().await
    }

    /// Makes sure that a majority may be trusted for at least this long.
    ///
    /// # Errors
    /// [`EnsureError`] of a node, when so many cannot that no majority is left.
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
        let ensuring: Vec<_> = match self.seats.enter() {
            Ok(state) => state.guards.iter().flatten().map(|guard| guard.ensuring(least)).collect(),
            Err(forked) => return Err(EnsureErrorKind::from(forked).of(self.subject.clone())),
        };
        let failed = join_all(ensuring).await.into_iter().find_map(Result::err);
        match failed {
            Some(error) if self.remaining() < least => Err(error),
            None if self.remaining() < least => {
                let reason = self.seats.lock().lost.unwrap_or(LostReason::Unreachable);
                Err(EnsureErrorKind::Lost(reason).of(self.subject.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Releases on every node, and reports how it went.
    ///
    /// # Errors
    /// [`ReleaseError`] when a majority has not confirmed it; it goes on being tried on every node.
    ///
    /// # Cancel safety
    /// Dropping the future does not cancel the releases, it only gives up the report.
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
        if let Err(forked) = self.seats.handle.check_process() {
            return Err(ReleaseErrorKind::from(forked).of(self.subject.clone()));
        }
        let (held, guards) = (self.is_held(), self.end());
        let quorum = self.seats.quorum;
        let reports = join_all(guards.into_iter().map(Guard::release)).await;
        let confirmed = reports.iter().filter(|report| report.is_ok()).count();
        let error = reports.into_iter().find_map(Result::err);
        match error {
            Some(error) if confirmed < quorum => Err(error),
            _ if held => Ok(ReleaseOutcome::Released),
            _ => Ok(ReleaseOutcome::NotHeld),
        }
    }

    /// Gives the guard up without a release: [`Guard::detach`] on every node.
    pub fn detach(self) {
        self.end().into_iter().for_each(Guard::detach);
    }

    /// Takes what is held, and ends the keepers. In a forked process both are the parent's.
    fn end(&self) -> Vec<Guard> {
        let Ok(mut state) = self.seats.enter() else { return Vec::new() };
        state.ended = true;
        let guards = std::mem::take(&mut state.guards);
        drop(state);
        // Only now: a keeper that ends gives up its seat, and with it what is there.
        self.keepers.iter().for_each(AbortHandle::abort);
        guards.into_iter().flatten().collect()
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
    use crate::client::Client;
    use crate::error::ReleaseErrorKind;
    use crate::shared::Shared;

    const SOON: Duration = Duration::from_secs(20);

    /// Three nodes whose clients another process made, and a hold of them as a forked child has it.
    fn forked() -> QuorumGuard {
        let client = |node: u8| {
            let engine = Engine::new(ClientId::from_random([node; 16]), Settings::default());
            let shared = Shared::new(engine, std::process::id() + 1, Moment::default);
            Client::new(Handle::new(Arc::new(shared)))
        };
        let redlock = crate::Redlock::builder().over([1, 2, 3].map(client));
        QuorumGuard::new(&redlock.lock("job"), vec![None, None, None], Vec::new())
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test that fails instead of hanging")]
    fn a_hold_of_another_process_is_lost_at_once_and_blocks_nobody() {
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let guards = [forked(), forked(), forked()];
            let seats = guards.each_ref().map(|guard| Arc::clone(&guard.seats));
            // As when a thread of the parent was inside when it forked.
            let taken = seats.each_ref().map(|seats| seats.lock());
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
            drop(taken);
            tell.send(()).expect("the test waits");
        });
        told.recv_timeout(SOON).expect("nothing fails and nothing waits for the lock");
    }
}
