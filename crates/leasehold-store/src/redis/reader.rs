//! The replies of a server, one after the other.
//!
//! Invariant: a failure repeats no bytes of the stream.

use combine::parser::combinator::AnySendSyncPartialState;
use combine::stream::PointerOffset;
use combine::stream::decoder::Decoder;
use leasehold_proto::{Applied, StoreErrorKind};
use redis::{ErrorKind, Value};
use tokio::io::AsyncRead;

use super::bounds::{Bounded, FirstBreach};
use super::error::Failure;
use super::eval::malformed;

/// A reader of replies, one after the other.
#[derive(Default)]
pub(super) struct Reader {
    decoder: Decoder<AnySendSyncPartialState, PointerOffset<[u8]>>,
    breach: FirstBreach,
}

impl Reader {
    pub(super) fn of(socket: &Bounded) -> Self {
        Self { breach: socket.breach(), ..Self::default() }
    }

    pub(super) async fn next(&mut self, source: &mut (impl AsyncRead + Unpin)) -> Result<Value, Failure> {
        let read = redis::parse_redis_value_async(&mut self.decoder, source).await;
        read.map_err(|error| match (self.breach.get(), error.kind()) {
            (Some(&breach), _) => Failure::breach(breach),
            // The parser's own text repeats its input, which may contain our own bytes.
            (None, ErrorKind::Parse) => malformed(),
            _ => Failure::new(StoreErrorKind::ConnectionLost, Applied::Unknown),
        })
    }
}
