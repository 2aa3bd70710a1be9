//! Futures that wait for a time, by the timer of the driver.
//!
//! Invariant: a sleep ends at its time or with its client, and changes nothing that the engine knows.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leasehold_proto::Moment;
use leasehold_proto::engine::Id;

use super::{Effects, Handle, Shared, State};
use crate::runtime::signal::Signal;

/// A wait until a time, on the client's clock. It ends early with its client.
pub(crate) struct Sleep {
    handle: Arc<Handle>,
    at: Moment,
    id: Id,
    signal: Arc<Signal>,
}

/// Sleeps for this long.
pub(crate) fn sleep(handle: &Arc<Handle>, pause: Duration) -> Sleep {
    Sleep {
        handle: Arc::clone(handle),
        at: handle.now() + pause,
        id: handle.next_id(),
        signal: Arc::default(),
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.handle.is_awake((self.at, self.id), &self.signal, cx.waker()) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.handle.forget_sleeper((self.at, self.id));
    }
}

impl Shared {
    /// Returns true if the time of a sleeper has come. Otherwise the signal wakes its task then.
    fn is_awake(&self, sleeper: (Moment, Id), signal: &Arc<Signal>, waker: &Waker) -> bool {
        signal.register(waker);
        // A forked process has no driver, so its sleeps never end.
        let Ok(mut state) = self.enter() else { return false };
        if state.ended || self.now() >= sleeper.0 {
            return true;
        }
        state.sleepers.insert(sleeper, Arc::clone(signal));
        self.leave(state, Effects::default());
        false
    }

    fn forget_sleeper(&self, sleeper: (Moment, Id)) {
        // A forked process has no sleepers, and its parent's lock may be held forever.
        let Ok(mut state) = self.enter() else { return };
        let forgotten = state.sleepers.remove(&sleeper);
        drop(state);
        drop(forgotten);
    }
}

impl State {
    /// Returns the time of the next timer, which is the engine's or a sleeper's.
    pub(super) fn next_timer(&self) -> Moment {
        let sleeper = self.sleepers.first_key_value().map_or(Moment::NEVER, |((at, _), _)| *at);
        self.engine.next_timer().min(sleeper)
    }

    /// Wakes the sleepers whose time has come.
    pub(super) fn wake_sleepers(&mut self, now: Moment, effects: &mut Effects) {
        while let Some(due) = self.sleepers.first_entry().filter(|sleeper| sleeper.key().0 <= now) {
            effects.signals.push(due.remove());
        }
    }
}
