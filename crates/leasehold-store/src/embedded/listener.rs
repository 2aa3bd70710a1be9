//! Redis's protocol (RESP2) in front of an in-process server, over any stream.
//!
//! Invariant: replies and messages of one connection leave in the order in which the server made them. The bytes of a
//! peer can end its connection, and nothing else.
//!
//! # How it works
//! Each connection has one outgoing queue. A reply joins the queue while the server is still locked, so a message that
//! was published later cannot overtake the reply. One future reads, writes and waits. It spawns nothing and reads no
//! clock.

mod connection;
mod connection_hook;
mod requests;
mod session;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, split};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::server::Server;
use connection::{Connection, Then};
pub use connection_hook::ConnectionHook;
use requests::{Request, Requests};
pub use session::Session;

/// Serves one connection until the peer closes it, quits or breaks the protocol.
///
/// # Cancel safety
/// Dropping the future ends the connection and its subscriptions.
pub async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, server: Arc<Server>) {
    serve_watched(stream, server, ()).await;
}

/// Serves one connection as [`serve`] does, with a [`ConnectionHook`] on the connection.
///
/// # Cancel safety
/// Dropping the future ends the connection and its subscriptions.
pub async fn serve_watched(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    server: Arc<Server>,
    hook: impl ConnectionHook,
) {
    let (input, mut output) = split(stream);
    let (outbox, mut letters) = unbounded_channel();
    let mut connection = Connection::new(server, outbox, Arc::new(hook));
    // The future survives the iterations, because it must not lose the part of a request that it has read.
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

/// Returns the next event. Outgoing bytes come before incoming bytes.
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::{AsyncReadExt, duplex};

    use super::*;
    use crate::embedded::command_context::Message;
    use crate::embedded::database::{Database, Executed};
    use crate::embedded::frame::Frame;

    /// Counts the keys before and after each command, and drops all messages except `2`.
    #[derive(Default)]
    struct Counts {
        before: AtomicUsize,
        after: AtomicUsize,
    }

    impl ConnectionHook for Arc<Counts> {
        fn execute(&self, database: &mut Database, now_ms: u64, command: &[Vec<u8>]) -> Executed {
            self.before.fetch_add(database.entries(now_ms).len(), Ordering::Relaxed);
            let executed = database.execute(now_ms, command);
            self.after.fetch_add(database.entries(now_ms).len(), Ordering::Relaxed);
            executed
        }

        fn lets_through(&self, message: &Message) -> bool {
            message.payload == b"2"
        }
    }

    #[tokio::test]
    async fn an_observer_sees_the_commands_of_its_peer_and_blocks_its_messages() {
        let (server, counts) = (Arc::new(Server::new(|| 0)), Arc::new(Counts::default()));
        let (mut near, far) = duplex(1 << 10);
        let talk = async {
            for words in [&["SET", "k", "v"][..], &["SUBSCRIBE", "c"]] {
                let words = words.iter().map(|word| Frame::bulk(*word)).collect();
                near.write_all(&Frame::Array(words).encode()).await.unwrap();
            }
            let confirmed = "+OK\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";
            near.read_exact(&mut vec![0; confirmed.len()]).await.unwrap();
            for payload in ["1", "2"] {
                assert_eq!(server.execute(&["PUBLISH", "c", payload]), Frame::Int(1));
            }
            near.shutdown().await.unwrap();
            let mut heard = String::new();
            near.read_to_string(&mut heard).await.unwrap();
            heard
        };
        let ((), heard) = tokio::join!(serve_watched(far, Arc::clone(&server), Arc::clone(&counts)), talk);
        assert_eq!(heard, "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n2\r\n");
        let seen = [&counts.before, &counts.after].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(seen, [0, 1], "only the peer's own commands");
    }
}
