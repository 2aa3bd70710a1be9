//! The threads that carry the bytes of one connection.
//!
//! Invariant: a thread drops its sockets before it reports its end, so the last report closes them.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use super::rules::{Direction, ReplyAction, Shared};

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
        match shared.action_for(id, direction, &chunk[..length]) {
            ReplyAction::Cut => break,
            ReplyAction::Swallow => {}
            // A half-closed connection goes on in the other direction. An error means that the socket is already
            // closed.
            ReplyAction::Deliver if ended => drop(to.shutdown(Shutdown::Write)),
            ReplyAction::Deliver => {
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
    shared.release_sockets(id);
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
