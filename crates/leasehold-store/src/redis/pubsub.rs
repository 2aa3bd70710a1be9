//! Subscriptions: one connection for all of them, kept up for as long as somebody listens.
//!
//! Invariant: [`Heard::Listening`] is said only after the server has confirmed, and again after every reconnect, for
//! every channel.
//! Called by: `standalone`.
//!
//! # How it works
//! One task owns the connection and the board of who listens to what. Subscribing and unsubscribing are messages to
//! that task, so they neither block nor need a runtime. A connection is one [`session`]; between two of them the task
//! waits, longer after each failure.

mod board;
mod session;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold_proto::Channel;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use self::board::Board;
use self::session::serve;
use super::connect::{Server, open};
use crate::store::{Heard, Subscription};
use crate::tokio_runtime::{Task, pause, spawn};

/// The wait before the first attempt to connect again, and the longest.
const BACKOFF: Duration = Duration::from_millis(20);
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// What the task is told.
pub(super) enum Order {
    /// Send what is heard on a channel to somebody, known by a number of its own.
    Listen { id: u64, channel: Channel, heard: UnboundedSender<Heard> },
    /// Stop that.
    End { id: u64, channel: Channel },
}

/// The store's subscriptions. Dropping it closes their connection.
pub(super) struct Listener {
    orders: UnboundedSender<Order>,
    next_id: AtomicU64,
    _task: Task,
}

impl Listener {
    /// Starts the task; it connects with the first subscription.
    pub(super) fn start(server: Arc<Server>) -> Self {
        let (orders, received) = unbounded_channel();
        let task = spawn(listen(server, received));
        Self { orders, next_id: AtomicU64::new(0), _task: task }
    }

    pub(super) fn subscribe(&self, channel: Channel, heard: UnboundedSender<Heard>) -> Subscription {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        // Sending fails only when the runtime, and the task with it, has gone: then there is nothing to hear.
        let _ = self.orders.send(Order::Listen { id, channel: channel.clone(), heard });
        let orders = self.orders.clone();
        Subscription::new(move || {
            let _ = orders.send(Order::End { id, channel });
        })
    }
}

async fn listen(server: Arc<Server>, mut orders: UnboundedReceiver<Order>) {
    let mut board = Board::default();
    let mut backoff = BACKOFF;
    loop {
        while board.is_empty() {
            let Some(order) = orders.recv().await else { return };
            board.apply(order);
        }
        if let Ok(opened) = open(&server).await
            && serve(opened, server.channels(), &mut board, &mut orders).await
        {
            backoff = BACKOFF;
        }
        pause(server.dialer.jitter(backoff)).await;
        backoff = (backoff * 2).min(BACKOFF_MAX);
    }
}
