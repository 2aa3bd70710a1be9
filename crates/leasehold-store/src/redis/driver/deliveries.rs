//! What a step leaves to do outside the lock.

use std::collections::BTreeMap;
use std::sync::Weak;
use std::task::Waker;

use leasehold_proto::{Reply, Scope, StoreError, engine};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use super::super::foreign::guarded_value;
use super::super::notices::{Change, ConnectionNotice, MissingNotice, Serving};
use super::super::socket::Socket;
use super::super::wire::SubscriberId;
use crate::store::{Heard, Outcomes};

/// The outcome of a call.
pub(super) type Outcome = Result<Reply, StoreError>;
/// The outcome of connecting, and its recipient.
type Opened = (oneshot::Sender<Result<(), StoreError>>, Result<(), StoreError>);

/// Outcomes and messages with their recipients, streams to close, and tasks to wake.
#[derive(Default)]
pub(super) struct Deliveries {
    pub(super) replies: Vec<(oneshot::Sender<Outcome>, Outcome)>,
    /// The outcomes of submitted calls, and their recipient.
    pub(super) outcomes: Vec<(engine::CallId, Outcome)>,
    /// The names that another server answers for, before the outcomes of their calls.
    pub(super) replaced: Vec<Scope>,
    pub(super) to: Option<Weak<dyn Outcomes>>,
    /// What the recipient of the outcomes learns of the turns of this thread.
    pub(super) turn: Turn,
    pub(super) heard: Vec<(UnboundedSender<Heard>, Heard)>,
    /// The number of messages of each subscriber.
    messages: BTreeMap<SubscriberId, usize>,
    pub(super) opened: Option<Opened>,
    pub(super) closed: Vec<Socket>,
    /// The replicas that are missing, connected and wanted, and who hears of them.
    pub(super) missing: Vec<(MissingNotice, u32, u32)>,
    /// The connections that serve or have ended, and who hears of them.
    pub(super) connections: Vec<(ConnectionNotice, Serving, Change)>,
    pub(super) wakers: Vec<Waker>,
}

/// The turns of a thread that delivers outcomes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Turn {
    /// One turn, which ends what callers leave to a next one.
    #[default]
    Alone,
    /// The same, with outcomes or without.
    Last,
    /// Another turn follows if the recipient wants it.
    OneOfMany,
}

/// The most messages of one subscriber in one turn. A message is a hint, and one is as good as many, but for the echoes of
/// the client's own calls, of which there are fewer.
const MESSAGES_MAX: usize = 1024;

impl Deliveries {
    /// Adds an event of a subscriber, unless it is one of far too many messages.
    pub(super) fn hear(&mut self, id: SubscriberId, hear: &UnboundedSender<Heard>, heard: Heard) {
        if matches!(heard, Heard::Message(..)) {
            let messages = self.messages.entry(id).or_default();
            *messages += 1;
            if *messages > MESSAGES_MAX {
                return;
            }
        }
        self.heard.push((hear.clone(), heard));
    }

    /// Delivers everything. Returns true if another turn is to follow.
    pub(super) fn deliver(self) -> bool {
        let mut is_awaited = false;
        for socket in self.closed {
            let _ = guarded_value(|| drop(socket));
        }
        if let Some(to) = self.to.as_ref().and_then(Weak::upgrade) {
            for scope in self.replaced {
                to.replaced(scope);
            }
            match self.turn {
                Turn::OneOfMany => is_awaited = to.gather(self.outcomes),
                Turn::Alone if self.outcomes.is_empty() => {}
                Turn::Alone | Turn::Last => to.take(self.outcomes),
            }
        }
        for (reply_to, outcome) in self.replies {
            // The caller may have dropped its future.
            drop(reply_to.send(outcome));
        }
        for (hear, heard) in self.heard {
            drop(hear.send(heard));
        }
        if let Some((tell, outcome)) = self.opened {
            drop(tell.send(outcome));
        }
        for (notice, connected, wanted) in self.missing {
            notice.tell(connected, wanted);
        }
        for (notice, serving, change) in self.connections {
            notice.tell(&serving, change);
        }
        self.wakers.into_iter().for_each(Waker::wake);
        is_awaited
    }
}
