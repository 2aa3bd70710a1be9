//! A driver for tests: streams in memory, and a clock that the test moves.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use leasehold_proto::{
    Applied, Call, Channel, Moment, Reply, Scope, Script, StoreError, StoreErrorKind, Verb,
};

use super::{CallId, ConnId, Input, Output, SubscriberId, Wire};
use crate::redis::connect::ConnectOptions;
use crate::redis::notices::Serving;
use crate::store::Heard;
use crate::url::{Address, ServerUrl};

/// The timeout of a call that nothing in a test awaits.
pub(super) const LONG: Duration = Duration::from_secs(3600);
/// The most rows of a batch in tests of batches.
pub(super) const ROWS: usize = 64;
pub(super) const SHORT: Duration = Duration::from_millis(100);

/// The answers to the first commands of the first connection, in RESP2.
pub(super) const GREETING: &str = "+PONG\r\n-ERR unknown command 'HELLO'\r\n:0\r\n:1\r\n";

pub(super) static SET: Script =
    Script::new(Verb::Acquire, "-- KEYS[1] key string any\n-- ARGV[1] value string any");
pub(super) static DELETE: Script =
    Script::new(Verb::Release, "-- KEYS[1] key string any\n-- ARGV[1] value string any\n");

/// The outcome of a call, without the text of an error.
pub(super) type Outcome = Result<Reply, (StoreErrorKind, Applied)>;

/// A wire and what its driver has seen.
#[derive(Debug)]
pub(super) struct Driver {
    pub(super) wire: Wire,
    pub(super) now: Moment,
    /// The dialed connections, in order.
    pub(super) dialed: Vec<ConnId>,
    /// The address of each dialed connection.
    pub(super) addresses: BTreeMap<ConnId, Address>,
    /// The streams that are neither closed nor reset, with the bytes that each has taken.
    pub(super) streams: BTreeMap<ConnId, Vec<u8>>,
    /// The connections that were reset, dialed or open.
    pub(super) reset: Vec<ConnId>,
    pub(super) opened: Vec<Result<(), StoreError>>,
    pub(super) replies: Vec<(u64, Result<Reply, StoreError>)>,
    pub(super) heard: Vec<(u64, Heard)>,
    pub(super) replaced: Vec<Scope>,
    /// The replicas that were missing: connected and wanted.
    pub(super) missing: Vec<(u32, u32)>,
    /// The connections that were told as serving.
    pub(super) serving: Vec<Serving>,
    /// The number of requests for credentials.
    pub(super) login_requests: usize,
    /// The number of bytes that a stream still takes.
    pub(super) takes: usize,
    last_call: u64,
}

impl Driver {
    pub(super) fn new(batch_rows: usize) -> Self {
        Self::with(ConnectOptions::default().batch_rows(batch_rows).at_once(1))
    }

    pub(super) fn with(options: ConnectOptions) -> Self {
        Self::at("redis://nowhere.invalid", options)
    }

    /// Returns the driver of a wire to the servers at this URL.
    pub(super) fn at(url: &str, options: ConnectOptions) -> Self {
        Self::of(ServerUrl::parse(url).unwrap(), options)
    }

    pub(super) fn of(url: ServerUrl, options: ConnectOptions) -> Self {
        Self {
            wire: Wire::new(url, options, 7),
            now: Moment::from_millis(1_000_000),
            dialed: Vec::new(),
            addresses: BTreeMap::new(),
            streams: BTreeMap::new(),
            reset: Vec::new(),
            opened: Vec::new(),
            replies: Vec::new(),
            heard: Vec::new(),
            replaced: Vec::new(),
            missing: Vec::new(),
            serving: Vec::new(),
            login_requests: 0,
            takes: usize::MAX,
            last_call: 0,
        }
    }

    /// Returns a driver with an open command connection, which the first call opened and which has answered that call.
    pub(super) fn live(batch_rows: usize) -> (Self, ConnId) {
        let mut driver = Self::new(batch_rows);
        let id = driver.open();
        (driver, id)
    }

    /// Opens the command connection.
    pub(super) fn open(&mut self) -> ConnId {
        self.input(Input::Open);
        let id = self.accept();
        self.says(id, GREETING);
        assert_eq!(self.opened, [Ok(())]);
        self.taken(id);
        id
    }

    pub(super) fn input(&mut self, input: Input<'_>) {
        let mut outputs = Vec::new();
        self.wire.step(self.now, input, &mut outputs);
        for output in outputs {
            match output {
                Output::Dial(id, address, _) => {
                    self.addresses.insert(id, address);
                    self.dialed.push(id);
                }
                Output::Missing { connected, wanted } => self.missing.push((connected, wanted)),
                Output::Serves(_, serving) => self.serving.push(serving),
                Output::Login => self.login_requests += 1,
                Output::Write(id) => self.write(id),
                Output::Reset(id) => {
                    self.streams.remove(&id);
                    self.reset.push(id);
                }
                Output::Opened(outcome) => self.opened.push(outcome),
                Output::Reply(id, outcome) => self.replies.push((id.0, outcome)),
                Output::Heard(id, heard) => self.heard.push((id.0, heard)),
                Output::Replaced(scope) => self.replaced.push(scope),
            }
        }
    }

    /// Writes the bytes of a connection, as far as its stream takes them.
    pub(super) fn write(&mut self, id: ConnId) {
        while let unwritten @ [_, ..] = self.wire.unwritten(id) {
            let count = unwritten.len().min(self.takes);
            if count == 0 {
                return;
            }
            self.takes = self.takes.saturating_sub(count);
            self.streams.get_mut(&id).expect("a stream").extend_from_slice(&unwritten[..count]);
            self.input(Input::Wrote(id, count));
        }
    }

    /// Gives the oldest connection that was dialed to this host, and has no stream, a stream.
    pub(super) fn accept_at(&mut self, host: &str) -> ConnId {
        let is_there =
            |address: &Address| matches!(address, Address::Tcp { host: there, .. } if there == host);
        let is_open = |id: &ConnId| !self.reset.contains(id) && is_there(&self.addresses[id]);
        let index = self.dialed.iter().position(is_open);
        let id =
            self.dialed.remove(index.unwrap_or_else(|| panic!("{host} is not dialed: {:?}", self.dials())));
        self.streams.insert(id, Vec::new());
        self.input(Input::Connected(id));
        id
    }

    /// Refuses the oldest dial to this host.
    pub(super) fn refuse_at(&mut self, host: &str) {
        let is_there =
            |address: &Address| matches!(address, Address::Tcp { host: there, .. } if there == host);
        let is_open = |id: &ConnId| !self.reset.contains(id) && is_there(&self.addresses[id]);
        let index = self.dialed.iter().position(is_open).expect("a dial");
        let id = self.dialed.remove(index);
        self.input(Input::Refused(id, io::ErrorKind::ConnectionRefused.into()));
    }

    /// Returns the hosts that are dialed and have no stream, in order.
    pub(super) fn dials(&self) -> Vec<&str> {
        let host = |id: &ConnId| match &self.addresses[id] {
            Address::Tcp { host, .. } => host.as_str(),
            Address::Unix { .. } => "",
        };
        self.dialed.iter().filter(|id| !self.reset.contains(id)).map(host).collect()
    }

    /// Gives the last dialed connection a stream.
    pub(super) fn accept(&mut self) -> ConnId {
        let id = *self.dialed.last().expect("a connection is dialed");
        self.streams.insert(id, Vec::new());
        self.input(Input::Connected(id));
        id
    }

    pub(super) fn refuse(&mut self) {
        let id = *self.dialed.last().expect("a connection is dialed");
        self.input(Input::Refused(id, io::ErrorKind::ConnectionRefused.into()));
    }

    /// Brings bytes of the server.
    pub(super) fn says(&mut self, id: ConnId, bytes: impl AsRef<[u8]>) {
        self.input(Input::Bytes(id, bytes.as_ref()));
    }

    /// Ends a stream from the other end.
    pub(super) fn hang_up(&mut self, id: ConnId) {
        self.streams.remove(&id);
        self.input(Input::Closed(id));
    }

    /// Lets the time pass, with a tick at each time that the wire has set.
    pub(super) fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while self.wire.timer() <= end {
            self.now = self.now.max(self.wire.timer());
            self.input(Input::Tick);
            assert!(self.wire.timer() > self.now, "a tick moves the timer on");
        }
        self.now = end;
    }

    /// Submits a call, and returns its id.
    pub(super) fn submit(&mut self, call: Call, timeout: Duration) -> u64 {
        self.last_call += 1;
        self.input(Input::Submit(CallId(self.last_call), call, timeout));
        self.last_call
    }

    pub(super) fn set(&mut self, value: impl leasehold_proto::Text, timeout: Duration) -> u64 {
        self.submit(set(value), timeout)
    }

    /// Submits a call on another key.
    pub(super) fn set_at(&mut self, key: &str, value: impl leasehold_proto::Text) -> u64 {
        self.submit(Call::of(&SET).key("key", key).arg("value", value), LONG)
    }

    pub(super) fn subscribe(&mut self, id: u64, channel: &str) {
        self.input(Input::Subscribe(SubscriberId(id), Channel::new(channel)));
    }

    pub(super) fn unsubscribe(&mut self, id: u64, channel: &str) {
        self.input(Input::Unsubscribe(SubscriberId(id), Channel::new(channel)));
    }

    /// Takes the bytes off a stream.
    pub(super) fn taken(&mut self, id: ConnId) -> Vec<u8> {
        std::mem::take(self.streams.get_mut(&id).expect("a stream"))
    }

    /// Takes the commands off a stream, each as its words with spaces between, and scripts as their first letters.
    pub(super) fn commands(&mut self, id: ConnId) -> Vec<String> {
        commands(&self.taken(id))
    }

    /// Returns the commands on a stream as [`commands`](Self::commands) does, and leaves them there.
    pub(super) fn unread(&self, id: ConnId) -> Vec<String> {
        commands(&self.streams[&id])
    }

    /// Takes the outcomes of calls, each with the id of its call.
    pub(super) fn outcomes(&mut self) -> Vec<(u64, Outcome)> {
        let replies = std::mem::take(&mut self.replies).into_iter();
        replies.map(|(id, outcome)| (id, outcome.map_err(|error| (error.kind, error.applied)))).collect()
    }
}

pub(super) fn set(value: impl leasehold_proto::Text) -> Call {
    Call::of(&SET).key("key", "k").arg("value", value)
}

pub(super) fn delete(value: impl leasehold_proto::Text) -> Call {
    Call::of(&DELETE).key("key", "k").arg("value", value)
}

/// Returns the commands in these bytes. The hash or the text of a script is left out.
pub(super) fn commands(bytes: &[u8]) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let (mut rest, mut words, mut is_script) = (bytes, 0, false);
    while !rest.is_empty() {
        let end = rest.windows(2).position(|pair| pair == b"\r\n").expect("a header");
        let count: usize = std::str::from_utf8(&rest[1..end]).unwrap().parse().unwrap();
        let kind = rest[0];
        rest = &rest[end + 2..];
        if kind == b'*' {
            assert_eq!(words, 0, "a command is complete before the next");
            words = count;
            commands.push(String::new());
            continue;
        }
        let (word, behind) = rest.split_at(count);
        rest = &behind[2..];
        words -= 1;
        let command = commands.last_mut().expect("a command has begun");
        if std::mem::take(&mut is_script) {
            continue;
        }
        is_script = word.starts_with(b"EVAL");
        if !command.is_empty() {
            command.push(' ');
        }
        command.push_str(&String::from_utf8_lossy(word));
    }
    assert_eq!(words, 0, "the last command is complete");
    commands
}
