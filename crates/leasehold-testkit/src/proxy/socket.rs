//! The options of the proxy's sockets.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

/// The longest write before a thread checks whether its connection was cut.
const WRITE_SLICE: Duration = Duration::from_millis(20);

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
