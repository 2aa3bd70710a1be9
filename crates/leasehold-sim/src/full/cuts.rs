//! The streams that the processes have closed.
//!
//! Invariant: an address stays until the server has dropped its end of the stream.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// The client addresses of the streams that the processes have closed.
#[derive(Clone, Debug, Default)]
pub(super) struct Cuts(Arc<Mutex<BTreeSet<SocketAddr>>>);

impl Cuts {
    pub(super) fn add(&self, address: SocketAddr) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(address);
    }

    pub(super) fn has(&self, address: SocketAddr) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&address)
    }

    pub(super) fn remove(&self, address: SocketAddr) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&address);
    }
}
