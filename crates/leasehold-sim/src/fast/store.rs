//! The store of one process in the fast mode.
//!
//! Invariant: a call runs at most once as far as this side can tell, or its outcome is unknown, as with every store. A
//! call that gets no answer in time has its connection cut.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use leasehold_proto::{Applied, Call, Channel, Reply, StoreError, StoreErrorKind};
use leasehold_store::embedded::read_reply;
use leasehold_store::{Heard, Store, Subscription};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use super::executor::{Home, spawn};
use super::net::{Net, Placed};
use super::server::Work;

/// The store of a process.
pub(super) struct FastStore {
    pub(super) net: Net,
    pub(super) process: usize,
}

impl Store for FastStore {
    fn run(
        &self,
        call: Call,
        timeout: Duration,
    ) -> impl Future<Output = Result<Reply, StoreError>> + Send + 'static {
        let (net, process) = (self.net.clone(), self.process);
        let (verb, key) = (call.verb(), call.subject());
        async move {
            let expiry = pin!(net.timeline.sleep(timeout));
            let Placed { answer, number } = net.put(process, Work::Call(call));
            let outcome = match select(answer, expiry).await {
                Either::Left((Ok(answer), _)) => answer,
                // The connection attempt was cut, and the queue of its waiting calls with it.
                Either::Left((Err(_), _)) => Err((StoreErrorKind::ConnectionLost, Applied::No)),
                Either::Right(_) if number.is_none() && !net.is_on_the_wire(process) => {
                    Err((StoreErrorKind::Timeout, Applied::No))
                }
                Either::Right(_) => {
                    net.cut(process);
                    Err((StoreErrorKind::Timeout, Applied::Unknown))
                }
            };
            match outcome {
                Ok(frame) => read_reply(frame, verb, key),
                Err((kind, applied)) => Err(StoreError::new(kind, verb, key, applied)),
            }
        }
    }

    fn subscribe(&self, channel: Channel, heard: UnboundedSender<Heard>) -> Subscription {
        let (net, id) = (self.net.clone(), self.net.next_listener());
        let (end, ended) = oneshot::channel();
        let keep = net.clone().keep_subscribed(self.process, id, channel, heard, ended);
        spawn(Home::World, keep);
        Subscription::new(move || {
            drop(end);
            net.unsubscribe(id);
        })
    }
}
