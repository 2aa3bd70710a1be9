//! Futures that wait until something changes about one id, such as a hold.

use std::sync::Arc;
use std::task::Waker;

use leasehold_proto::engine::Id;
use leasehold_proto::{Engine, Moment};

use super::Shared;
use crate::error::Forked;
use crate::runtime::signal::Signal;

impl Shared {
    /// Reads the engine. The signal wakes the listener's task when this id changes.
    pub(crate) fn read_as<T>(
        &self,
        (id, listener): (Id, Id),
        signal: &Arc<Signal>,
        waker: &Waker,
        read: impl FnOnce(&Engine, Moment) -> T,
    ) -> Result<T, Forked> {
        self.check_process()?;
        signal.register(waker);
        let mut state = self.enter()?;
        state.listen((id, listener), signal, false);
        Ok(read(&state.engine, self.now()))
    }

    /// Removes one listener of this id.
    pub(crate) fn forget_listener(&self, id: Id, listener: Id) -> Result<(), Forked> {
        let forgotten = self.enter()?.listeners.remove(&(id, listener));
        drop(forgotten);
        Ok(())
    }

    /// Returns the listeners that were woken and have neither polled since nor been removed.
    #[cfg(feature = "embedded")]
    pub(crate) fn woken(&self) -> Vec<(Id, Id)> {
        let state = self.lock();
        state.listeners.iter().filter(|(_, listener)| listener.woken).map(|(who, _)| *who).collect()
    }
}
