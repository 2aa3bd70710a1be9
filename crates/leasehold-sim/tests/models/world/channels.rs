//! The subscriptions of the clients: what is on its way to the server, and what the server has sent.
//!
//! Invariant: a connection delivers in order. A message reaches the clients whose subscription the server has executed
//! before the message.

use std::collections::{BTreeSet, VecDeque};

use leasehold_proto::Channel;
use leasehold_proto::engine::Event;

use super::server::Server;

/// The subscription connections of the clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Channels {
    /// That of each client, in worlds with wake-ups.
    connections: Vec<Connection>,
    /// True if a client hears of a confirmed subscription.
    confirms: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Connection {
    /// The channels that the client wants.
    wanted: BTreeSet<Channel>,
    /// The commands on their way to the server: a channel, and whether it is to be subscribed.
    commands: VecDeque<(Channel, bool)>,
    /// The channels that the server delivers.
    delivered: BTreeSet<Channel>,
    /// What is on its way to the client.
    news: VecDeque<News>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum News {
    Listening(Channel),
    Message(Channel),
}

impl Channels {
    /// Returns the connections of this many clients.
    pub(crate) fn of(clients: usize, confirms: bool) -> Self {
        Self { connections: vec![Connection::default(); clients], confirms }
    }

    pub(crate) fn subscribe(&mut self, client: usize, channel: &Channel, is_wanted: bool) {
        let Some(connection) = self.connections.get_mut(client) else { return };
        if is_wanted {
            connection.wanted.insert(channel.clone());
        } else {
            connection.wanted.remove(channel);
        }
        connection.commands.push_back((channel.clone(), is_wanted));
    }

    pub(super) fn publish(&mut self, channel: &Channel) {
        for connection in self.connections.iter_mut().filter(|one| one.delivered.contains(channel)) {
            connection.news.push_back(News::Message(channel.clone()));
        }
    }

    /// Returns the clients with commands on their way to the server.
    pub(crate) fn commanding(&self) -> impl Iterator<Item = usize> {
        self.those(|connection| !connection.commands.is_empty())
    }

    /// Returns the clients for which the server has sent something.
    pub(crate) fn told(&self) -> impl Iterator<Item = usize> {
        self.those(|connection| !connection.news.is_empty())
    }

    /// Returns the clients whose connection can break with an effect.
    pub(crate) fn breakable(&self) -> impl Iterator<Item = usize> {
        self.those(|connection| !connection.delivered.is_empty())
    }

    fn those(&self, is: impl Fn(&Connection) -> bool) -> impl Iterator<Item = usize> {
        let connections = self.connections.iter().enumerate();
        connections.filter(move |(_, connection)| is(connection)).map(|(client, _)| client)
    }

    pub(crate) fn are_idle(&self) -> bool {
        self.connections.iter().all(|connection| connection.commands.is_empty() && connection.news.is_empty())
    }

    /// Lets the server execute the next command of a client.
    pub(super) fn execute(&mut self, client: usize, server: &mut Server) {
        let connection = &mut self.connections[client];
        let Some((channel, is_wanted)) = connection.commands.pop_front() else { return };
        let delivered = &mut connection.delivered;
        let changes = if is_wanted { delivered.insert(channel.clone()) } else { delivered.remove(&channel) };
        if changes {
            server.count(&channel, is_wanted);
        }
        if is_wanted && self.confirms {
            connection.news.push_back(News::Listening(channel));
        }
    }

    /// Delivers the next news of a client that still wants their channel.
    pub(crate) fn hear(&mut self, client: usize) -> Option<Event> {
        let connection = &mut self.connections[client];
        let (channel, event): (_, fn(Channel) -> Event) = match connection.news.pop_front()? {
            News::Listening(channel) => (channel, Event::Listening),
            News::Message(channel) => (channel, Event::Message),
        };
        connection.wanted.contains(&channel).then(|| event(channel))
    }

    /// Breaks the connection of a client, with what it had sent. The next one subscribes again.
    pub(super) fn break_off(&mut self, client: usize, server: &mut Server) {
        let Some(connection) = self.connections.get_mut(client) else { return };
        connection.delivered.iter().for_each(|channel| server.count(channel, false));
        let wanted = std::mem::take(&mut connection.wanted);
        let commands = wanted.iter().map(|channel| (channel.clone(), true)).collect();
        *connection = Connection { wanted, commands, ..Connection::default() };
    }

    pub(super) fn hang_up(&mut self, client: usize, server: &mut Server) {
        if let Some(connection) = self.connections.get_mut(client) {
            connection.wanted.clear();
            self.break_off(client, server);
        }
    }
}
