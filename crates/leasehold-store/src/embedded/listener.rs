//! Redis's protocol (RESP2) in front of a server in the process, over any stream.
//!
//! Invariant: replies and messages of one connection leave in the order in which the server made them; what a peer
//! sends can end its connection, and nothing else.
//! Called by: simulators, and tests that need a real client's bytes.
//!
//! # How it works
//! Everything that goes out stands in one line per connection: a reply is put there while the server is still locked,
//! so a message that was published later cannot overtake it. One future reads, writes and waits; it spawns nothing and
//! reads no clock.

mod connection;
mod requests;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, split};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::server::Server;
use connection::{Connection, Then};
use requests::{Request, Requests};

/// Serves one connection until the peer closes it, quits or breaks the protocol.
///
/// # Cancel safety
/// Dropping the future ends the connection and its subscriptions.
pub async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, server: Arc<Server>) {
    let (input, mut output) = split(stream);
    let (outbox, mut letters) = unbounded_channel();
    let mut connection = Connection::new(server, outbox);
    // Kept over the turns of the loop, because what it has read of a request must not be lost.
    let mut reading = Box::pin(Requests::new(input).next());
    loop {
        let turn = next(&mut letters, reading.as_mut()).await;
        let then = match turn {
            Turn::Letter(letter) => {
                if output.write_all(&letter).await.is_err() {
                    return;
                }
                continue;
            }
            Turn::Request(requests, request) => {
                reading.set(requests.next());
                connection.handle(request)
            }
        };
        if then == Then::Close {
            letters.close();
            while let Some(letter) = letters.recv().await {
                if output.write_all(&letter).await.is_err() {
                    return;
                }
            }
            let _ = output.shutdown().await;
            return;
        }
    }
}

enum Turn<R> {
    Letter(Vec<u8>),
    Request(Requests<R>, Request),
}

/// What comes first; what goes out, before what comes in.
async fn next<R>(
    letters: &mut UnboundedReceiver<Vec<u8>>,
    mut reading: Pin<&mut impl Future<Output = (Requests<R>, Request)>>,
) -> Turn<R> {
    poll_fn(|cx| {
        if let Poll::Ready(Some(letter)) = letters.poll_recv(cx) {
            return Poll::Ready(Turn::Letter(letter));
        }
        reading.as_mut().poll(cx).map(|(requests, request)| Turn::Request(requests, request))
    })
    .await
}
