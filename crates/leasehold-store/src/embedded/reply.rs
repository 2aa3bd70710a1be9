//! The conversion of a frame to the reply of a script, or to the error of a call.
//!
//! Invariant: an error text means the same here as it does in the Redis store, because both read it with the same
//! table.

use std::sync::Arc;

use leasehold_proto::{Reply, StoreError, Verb};

use super::frame::Frame;
use crate::server_error::{ServerText, classify};

/// Converts the frame that answers a call. `during` and `key` go into the error.
///
/// # Errors
/// Fails when the frame is an error. `applied` reports whether the script may have changed something.
pub fn read_reply(frame: Frame, during: Verb, key: Arc<str>) -> Result<Reply, StoreError> {
    match read(frame) {
        Ok(reply) => Ok(reply),
        Err(text) => {
            let (kind, applied) = classify(&text);
            Err(StoreError::new(kind, during, key, applied).with_source(ServerText::new(&text)))
        }
    }
}

/// Reads a frame. An error inside an array is the error of the whole, as in the Redis store.
fn read(frame: Frame) -> Result<Reply, String> {
    Ok(match frame {
        Frame::Nil | Frame::NilArray => Reply::Nil,
        Frame::Int(number) => Reply::Int(number),
        Frame::Bulk(bytes) => Reply::Text(bytes),
        Frame::Simple(text) => Reply::Text(text.into_bytes()),
        Frame::Array(items) => Reply::Array(items.into_iter().map(read).collect::<Result<_, _>>()?),
        Frame::Error(text) => return Err(text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_proto::{Applied, StoreErrorKind};

    #[test]
    fn an_error_is_classified_and_kept_as_the_source() {
        use std::error::Error;
        let frame = Frame::Error("OOM command not allowed when used memory > 'maxmemory'.".to_owned());
        let error = read_reply(frame, Verb::Acquire, "k".into()).unwrap_err();
        assert_eq!((error.kind, error.applied), (StoreErrorKind::OutOfMemory, Applied::No));
        assert!(error.source().unwrap().to_string().contains("maxmemory"));
    }

    #[test]
    fn both_null_replies_are_nil() {
        let frame = Frame::Array(vec![Frame::Nil, Frame::NilArray, Frame::ok()]);
        let reply = read_reply(frame, Verb::Inspect, "".into()).unwrap();
        assert_eq!(reply, Reply::Array(vec![Reply::Nil, Reply::Nil, Reply::Text(b"OK".to_vec())]));
    }
}
