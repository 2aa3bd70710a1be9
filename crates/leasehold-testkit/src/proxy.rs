//! A TCP proxy in front of a server, to lose, delay and cut the traffic between it and its clients.
//!
//! # How it works
//! One thread accepts. Two threads per connection carry the bytes, one for each direction. The rules judge each chunk
//! (the result of one read) before it goes on. TCP never loses bytes from the middle of a stream, so neither does the
//! proxy. A direction that swallowed a chunk delivers nothing afterward, and its connection is reset when the loss
//! ends. Otherwise a client would take the reply to one command for the reply to another, which no real network can
//! cause.
//!
//! Invariant: a rule holds for every chunk that is read after its setter returned.

mod link;
mod rules;
mod socket;

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use link::carry;
use rules::{Direction, ReplyAction, Shared};
use socket::{prepare, reset_on_close};

/// The time limit for the proxy's connect to the server, per new connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// A TCP proxy on the loopback interface that misbehaves on request. Stops, and resets its connections, when dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy for the server on this port of 127.0.0.1.
    ///
    /// A client whose connection cannot be passed on (the server is down) is accepted and then reset.
    ///
    /// # Panics
    /// Panics if no port is free.
    #[must_use]
    #[track_caller]
    pub fn start(target_port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free for the proxy");
        let port = listener.local_addr().expect("a listener has an address").port();
        let shared = Arc::new(Shared::default());
        let acceptor = thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, target_port, &shared)
        });
        Self { port, shared, acceptor: Some(acceptor) }
    }

    /// Returns the port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the address without a password: `redis://127.0.0.1:port`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Swallows the server's replies and messages while on. Requests still reach the server.
    ///
    /// Turning it off resets the connections that lost a chunk.
    pub fn drop_replies(&self, on: bool) {
        self.shared.set_loss(&[Direction::Reply], on);
    }

    /// Swallows requests while on, so the server never sees them. Messages to subscribers still arrive.
    ///
    /// Turning it off resets the connections that lost a chunk.
    pub fn drop_requests(&self, on: bool) {
        self.shared.set_loss(&[Direction::Request], on);
    }

    /// Swallows messages to subscribers while on. A connection delivers no reply after its first lost message. Other
    /// connections still deliver theirs.
    ///
    /// Turning it off resets, with their next reply, the connections that lost a chunk.
    pub fn drop_messages(&self, on: bool) {
        self.shared.set(|rules| rules.loses_messages = on);
    }

    /// Swallows everything in both directions while on, including the end of a connection. New connections are still
    /// accepted.
    ///
    /// Turning it off resets the connections that lost a chunk.
    pub fn black_hole(&self, on: bool) {
        self.shared.set_loss(&[Direction::Request, Direction::Reply], on);
    }

    /// Holds replies and messages back while on. Turning it off delivers them, in order.
    pub fn hold_replies(&self, on: bool) {
        self.shared.set(|rules| rules.hold_replies = on);
    }

    /// Resets new connections while on, as soon as the proxy accepts them.
    pub fn refuse(&self, on: bool) {
        self.shared.set(|rules| rules.refuse = on);
    }

    /// Resets all present connections, on both sides. They are gone when this returns.
    pub fn cut(&self) {
        self.shared.cut(|_| true);
    }

    /// Swallows the `n`th reply from now, counted from 1 over all connections. Later replies on that connection reset
    /// it.
    ///
    /// The proxy counts chunks. Replies to pipelined commands count as one when they arrive as one. Messages count as
    /// replies, and so do the replies to the commands that a client sends when it connects. Only one such order is in
    /// force at a time, from this method or from [`cut_on_nth_reply`](Self::cut_on_nth_reply). 0 cancels the order.
    pub fn drop_nth_reply(&self, n: u64) {
        self.shared.set(|rules| rules.order(n, ReplyAction::Swallow));
    }

    /// Resets the connection of the `n`th reply from now instead of delivering it, counted as in
    /// [`drop_nth_reply`](Self::drop_nth_reply).
    pub fn cut_on_nth_reply(&self, n: u64) {
        self.shared.set(|rules| rules.order(n, ReplyAction::Cut));
    }

    /// Returns the number of client connections that the proxy carries.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.connections()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.set(|rules| rules.stopped = true);
        // The connect wakes the acceptor, which then sees that it must stop.
        let woken = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        if let (Ok(_), Some(acceptor)) = (woken, self.acceptor.take()) {
            let _ = acceptor.join();
        }
        self.cut();
    }
}

fn accept(listener: &TcpListener, target_port: u16, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        let (stopped, refuse) = shared.set(|rules| (rules.stopped, rules.refuse));
        if stopped {
            return;
        }
        let Ok(client) = client else { continue };
        if refuse {
            reset_on_close(&client);
        } else {
            open(client, target_port, shared);
        }
    }
}

/// Connects to the server and starts the threads of the connection.
fn open(client: TcpStream, target_port: u16, shared: &Arc<Shared>) {
    let target = SocketAddr::from((Ipv4Addr::LOCALHOST, target_port));
    let Ok(server) = TcpStream::connect_timeout(&target, CONNECT_WITHIN).and_then(|server| {
        prepare(&server)?;
        prepare(&client)?;
        Ok(server)
    }) else {
        reset_on_close(&client);
        return;
    };
    let (client, server) = (Arc::new(client), Arc::new(server));
    let id = shared.add(Arc::clone(&client), Arc::clone(&server));
    for (direction, from, to) in
        [(Direction::Request, &client, &server), (Direction::Reply, &server, &client)]
    {
        let (shared, from, to) = (Arc::clone(shared), Arc::clone(from), Arc::clone(to));
        thread::spawn(move || carry(&shared, id, direction, from, to));
    }
    drop((client, server));
    shared.release_sockets(id);
}
