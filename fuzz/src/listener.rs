//! The embedded server's listener. For any input, a connection ends with its peer and leaves nothing behind.
//!
//! Invariant: no script here runs without end. Such a script is the fault of its caller, as on any server.

use std::sync::Arc;

use leasehold_store::embedded::{Frame, Server, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, split};

use crate::resp;
use crate::virtual_time::finish;

/// A size so small that both sides have to wait for each other.
const PIPE_BYTES: usize = 64;

/// Sends the bytes in pieces, whose length the first byte gives, and reads to the end.
pub fn listener(data: &[u8]) {
    let Some((length, sent)) = data.split_first() else { return };
    let lower = sent.to_ascii_lowercase();
    if lower.windows(4).any(|word| word == b"eval") {
        return;
    }
    let server = Arc::new(Server::new(|| 1_000));
    let (near, far) = duplex(PIPE_BYTES);
    let heard = finish("a connection whose peer has gone", async {
        let (mut input, mut output) = split(near);
        let mut heard = Vec::new();
        let send = async {
            for piece in sent.chunks(usize::from(*length).max(1)) {
                // The server may have hung up.
                if output.write_all(piece).await.is_err() {
                    return;
                }
            }
            let _ = output.shutdown().await;
        };
        let ((), (), read) =
            tokio::join!(send, serve(far, Arc::clone(&server)), input.read_to_end(&mut heard));
        read.expect("a pipe does not fail");
        heard
    });
    let mut rest = heard.as_slice();
    while !rest.is_empty() {
        rest = resp::after_one(rest)
            .unwrap_or_else(|| panic!("{sent:?} is answered by no whole reply: {rest:?}"));
    }
    assert_eq!(
        server.execute(&["PUBSUB", "CHANNELS"]),
        Frame::Array(Vec::new()),
        "a peer that has gone listens"
    );
    assert_eq!(server.execute(&["PUBSUB", "NUMPAT"]), Frame::Int(0), "a peer that has gone listens");
}
