//! The threads that carry the bytes of one connection.
//!
//! Invariant: a thread drops its sockets before it reports its end, so the last report closes them.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use super::rules::{Fate, Shared};

/// The longest write before a thread checks whether its connection was cut.
const WRITE_SLICE: Duration = Duration::from_millis(20);

/// The direction of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Client to server.
    Request = 0,
    /// Server to client.
    Reply = 1,
}

/// Configures a socket. It sends small messages at once, and its writes can be interrupted.
pub(super) fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    socket.set_write_timeout(Some(WRITE_SLICE))
}

/// Makes the close of a socket a reset, which loses all bytes still in flight, as when a machine dies.
pub(super) fn reset_on_close(socket: &TcpStream) {
    // Fails only if the peer has closed, and then there is nothing to reset.
    let _ = rustix::net::sockopt::set_socket_linger(socket, Some(Duration::ZERO));
}

/// Carries one direction of a connection until its end.
pub(super) fn carry(
    shared: &Shared,
    id: u64,
    direction: Direction,
    from: Arc<TcpStream>,
    to: Arc<TcpStream>,
) {
    let mut chunk = [0; 16 * 1024];
    loop {
        let Ok(length) = (&*from).read(&mut chunk) else {
            shared.abort(id);
            break;
        };
        let ended = length == 0;
        match shared.judge(id, direction, &chunk[..length]) {
            Fate::Cut => break,
            Fate::Swallow => {}
            // A half-closed connection goes on in the other direction. An error means that the socket is already
            // closed.
            Fate::Deliver if ended => drop(to.shutdown(Shutdown::Write)),
            Fate::Deliver => {
                if deliver(shared, id, &to, &chunk[..length]).is_err() {
                    shared.abort(id);
                    break;
                }
            }
        }
        if ended {
            break;
        }
    }
    drop((from, to));
    shared.let_go(id);
}

fn deliver(shared: &Shared, id: u64, mut to: &TcpStream, mut rest: &[u8]) -> io::Result<()> {
    while !rest.is_empty() {
        match to.write(rest) {
            Ok(written) => rest = &rest[written..],
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if shared.is_cut(id) {
                    return Err(error);
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
