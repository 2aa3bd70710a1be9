//! The answer to `HELLO`, which says what the server is.
//!
//! Invariant: the answers in RESP2 and in RESP3 have equal fields.

use super::frame::Frame;

/// The version of Redis whose behavior the store has.
pub(super) const VERSION: &str = "7.0.15";

/// Returns the fields, as keys and values in turn.
pub(super) fn greeting(protocol: i64, mode: &str) -> Vec<Frame> {
    let text = |text: &str| Frame::bulk(text);
    vec![
        text("server"),
        text("redis"),
        text("version"),
        text(VERSION),
        text("proto"),
        Frame::Int(protocol),
        text("id"),
        Frame::Int(1),
        text("mode"),
        text(mode),
        text("role"),
        text("master"),
        text("modules"),
        Frame::Array(Vec::new()),
    ]
}
