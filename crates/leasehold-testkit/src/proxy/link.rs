//! The threads that carry the bytes of one connection.
//!
//! Invariant: a thread lets go of its sockets before it reports its end, so the last report closes them.
//! Called by: [`Proxy`](super::Proxy) for each connection it accepts.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use super::rules::{Fate, Shared};

/// How long a thread may be stuck in a write before it looks whether its connection was cut.
const WRITE_SLICE: Duration = Duration::from_millis(20);

/// Which way a chunk travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// From a client to the server.
    Request = 0,
    /// From the server to a client.
    Reply = 1,
}

/// Sets a socket up for carrying: small messages at once, writes that can be interrupted.
pub(super) fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    socket.set_write_timeout(Some(WRITE_SLICE))
}

/// Makes the close of a socket a reset: whatever is still under way is lost, as when a machine dies.
pub(super) fn reset_on_close(socket: &TcpStream) {
    // Fails only when the peer has closed, and then there is nothing to reset.
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
            // A half-closed connection goes on in the other direction. Failing means that it is closed already.
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
