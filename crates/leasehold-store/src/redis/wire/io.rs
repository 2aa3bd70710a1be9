//! The inputs and outputs of the wire.

use std::io;
use std::time::Duration;

use leasehold_proto::{Call, Channel, Reply, Scope, StoreError};

use super::ids::{CallId, ConnId, SubscriberId};
use crate::redis::notices::Serving;
use crate::store::Heard;
use crate::url::{Address, Credentials};

/// An event for the wire.
#[derive(Debug)]
pub enum Input<'a> {
    /// Connects without a call, and reports the outcome as [`Output::Opened`].
    Open,
    /// Runs a call once, within the timeout, and reports the outcome as [`Output::Reply`]. Its step reports no outcome of
    /// another call, and this call's only if the wire refuses it. It reports no other server either.
    Submit(CallId, Call, Duration),
    /// The submitter of a call has left. An unsent call is not sent. A call on its way is read to its end, and its reply
    /// is not reported.
    Abandon(CallId),
    /// Listens on a channel until [`Unsubscribe`](Self::Unsubscribe).
    Subscribe(SubscriberId, Channel),
    /// Ends a subscription.
    Unsubscribe(SubscriberId, Channel),
    /// The provider of the credentials has answered [`Output::Login`].
    Login(io::Result<Credentials>),
    /// The driver has asked the provider of the credentials for this dial
    /// ([`Wire::wants_login`](super::Wire::wants_login)), whose [`Connected`](Self::Connected) follows. No other connection
    /// logs in with them.
    DialLogin(ConnId, Credentials),
    /// The driver has a stream for the connection.
    Connected(ConnId),
    /// The driver got no stream for the connection, or the server refused the stream before it sent a byte.
    Refused(ConnId, io::Error),
    /// Bytes arrived, in the order of the stream and in any pieces.
    Bytes(ConnId, &'a [u8]),
    /// The stream took this number of the bytes of [`Wire::unwritten`](super::Wire::unwritten).
    Wrote(ConnId, usize),
    /// The stream has ended, by its other end or by an error. All bytes that it brought were passed in before.
    Closed(ConnId),
    /// Time has passed. The driver has passed in all bytes that its streams had before.
    Tick,
    /// Sends the calls that were gathered since the last flush.
    Flush,
    /// Begins to gather: the calls that follow wait for [`Gathered`](Self::Gathered), and travel together.
    Gather,
    /// Sends the calls since [`Gather`](Self::Gather), unless they wait behind others.
    Gathered,
    /// Ends all connections, calls and subscriptions.
    Close,
}

/// A command of the wire to its driver, or a result.
#[derive(Debug)]
pub enum Output {
    /// Opens a stream to this address for this connection, within the limit. The driver answers with
    /// [`Input::Connected`] or [`Input::Refused`], unless it receives [`Output::Reset`] first.
    Dial(ConnId, Address, Duration),
    /// Asks the provider of the credentials for others. The driver answers with [`Input::Login`], within the limit of an
    /// attempt to connect.
    Login,
    /// From now on, calls count with the replicas that are connected, because there are fewer than the policy wants.
    Missing {
        /// The number of connected replicas.
        connected: u32,
        /// The number that the policy wants.
        wanted: u32,
    },
    /// The connection has unwritten bytes. The driver writes [`Wire::unwritten`](super::Wire::unwritten) and reports
    /// [`Input::Wrote`], until no bytes are left.
    Write(ConnId),
    /// Closes the stream of the connection with a reset, or ends the dialing.
    Reset(ConnId),
    /// The connection serves from now on, until its stream ends.
    Serves(ConnId, Serving),
    /// The outcome of [`Input::Open`].
    Opened(Result<(), StoreError>),
    /// The outcome of a call. Each submitted call that was not abandoned has one.
    Reply(CallId, Result<Reply, StoreError>),
    /// An event of a subscription.
    Heard(SubscriberId, Heard),
    /// Another server answers for these names now, or the same one over a new connection, so it may not have what was
    /// granted.
    Replaced(Scope),
}

impl Output {
    /// Returns true if the step that submits this call may have this output. The driver carries the step out on the
    /// caller's thread, which must not meet the outcomes of others: their callers may submit calls of their own.
    pub(super) fn may_follow(&self, submitted: CallId) -> bool {
        match self {
            Self::Reply(id, _) => *id == submitted,
            Self::Opened(_) | Self::Heard(..) | Self::Replaced(_) => false,
            Self::Dial(..)
            | Self::Login
            | Self::Missing { .. }
            | Self::Write(_)
            | Self::Serves(..)
            | Self::Reset(_) => true,
        }
    }
}
