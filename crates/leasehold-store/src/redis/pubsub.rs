//! Subscriptions: one connection for all of them, kept open as long as there are subscribers.
//!
//! Invariant: a subscriber receives [`Heard::Listening`] only after the server has confirmed, and again after every
//! reconnect, for every channel.
//!
//! # How it works
//! The subscription table holds the subscribers of each channel. Subscribing and unsubscribing change the table under a
//! short lock, from any thread, and wake the one task that owns the connection. So a subscription that has ended again
//! costs no command, connected or not. A connection is one [`session`]. Between two sessions the task pauses, longer
//! after each failure.

mod session;
mod subscription_table;
mod wanted;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_proto::Channel;
use tokio::sync::mpsc::UnboundedSender;

use self::session::serve;
use self::wanted::Wanted;
use super::backoff::Backoff;
use super::connect::{Server, open};
use crate::store::{Heard, Subscription};
use crate::tokio_runtime::{Task, pause_until, spawn};

/// The store's subscriptions. Dropping it closes their connection.
pub(super) struct Listener {
    wanted: Arc<Wanted>,
    next_id: AtomicU64,
    _task: Task,
}

impl Listener {
    /// Starts the task, which connects with the first subscription.
    pub(super) fn start(server: Arc<Server>) -> Self {
        let wanted = Arc::new(Wanted::default());
        let task = spawn(listen(server, Arc::clone(&wanted)));
        Self { wanted, next_id: AtomicU64::new(0), _task: task }
    }

    pub(super) fn subscribe(&self, channel: Channel, heard: UnboundedSender<Heard>) -> Subscription {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.wanted.change(|table| table.add(id, channel.clone(), heard));
        // The reference is weak, so that a subscription that outlives the store keeps no subscriber's channel open.
        let wanted = Arc::downgrade(&self.wanted);
        Subscription::new(move || {
            if let Some(wanted) = wanted.upgrade() {
                wanted.change(|table| table.remove(id, &channel));
            }
        })
    }
}

async fn listen(server: Arc<Server>, wanted: Arc<Wanted>) {
    let mut backoff = Backoff::default();
    loop {
        while wanted.table().is_empty() {
            wanted.changed.notified().await;
        }
        if let Ok(opened) = open(&server).await
            && serve(opened, server.channels(), &wanted).await
        {
            backoff.forget();
        }
        wanted.table().start_over();
        backoff.attempted(&*server.dialer);
        if let Some(at) = backoff.not_before() {
            pause_until(at).await;
        }
    }
}
