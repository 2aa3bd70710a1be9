//! The pure wire, stepped with inputs in any order, at any times, with bytes of any kind.
//!
//! Invariant: the driver keeps its side. It dials when it is told to, reports what its streams take, and passes bytes and
//! ends of open streams alone. The bytes are those of any server.
//!
//! # How it works
//! Bytes choose inputs until they are used up. After each input the target checks that no call has two outcomes, and that
//! a call was never written if it is reported as not applied by anything but an error of the server. Then the wire is closed.
//! Each call must have its outcome by then, and was written at most twice, the second time because a server forgot its script.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use arbitrary::{Result, Unstructured};
use leasehold_proto::{Applied, Call, Channel, Moment, Script, StoreErrorKind, Verb};
use leasehold_store::redis::wire::{CallId, ConnId, Input, Output, SubscriberId, Wire};
use leasehold_store::redis::ConnectOptions;
use leasehold_store::url::ServerUrl;

/// The largest number of inputs of one run.
const INPUTS: usize = 300;
/// The time of a call that waits for others.
const LONG: Duration = Duration::from_secs(30);

static ONE: Script =
    Script::new(Verb::Acquire, "-- KEYS[1] key string any\n-- ARGV[1] value string any\nreturn KEYS[1]");
static OTHER: Script =
    Script::new(Verb::Release, "-- KEYS[1] key string any\n-- ARGV[1] value string any\nreturn ARGV[1]");

/// What servers say, and what only broken ones say.
const SAYINGS: [&str; 26] = [
    "+PONG\r\n-ERR unknown command 'HELLO'\r\n:0\r\n:1\r\n",
    "+PONG\r\n",
    "%1\r\n$5\r\nproto\r\n:3\r\n",
    ":0\r\n",
    ":1\r\n",
    "$-1\r\n",
    "_\r\n",
    "*2\r\n:1\r\n:2\r\n",
    "*2\r\n:1\r\n-WRONGTYPE Operation against a key\r\n",
    "*3\r\n$-1\r\n:1\r\n$2\r\nab\r\n",
    "-NOSCRIPT No matching script. Please use EVAL.\r\n",
    "-LOADING Redis is loading the dataset in memory\r\n",
    "-READONLY You can't write against a read only replica.\r\n",
    "-BUSY Redis is busy running a script.\r\n",
    "-ERR max number of clients reached\r\n",
    "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n",
    ">3\r\n$9\r\nsubscribe\r\n$1\r\nd\r\n:2\r\n",
    "*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n",
    "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n",
    ">3\r\n$7\r\nmessage\r\n$1\r\nd\r\n$1\r\n0\r\n",
    "*2\r\n$4\r\npong\r\n$0\r\n\r\n",
    "$1000000000\r\n",
    "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
    "\r\n",
    "HTTP/1.1 400 Bad Request\r\n",
    "*-1\r\n",
];

/// A wire with its driver, and what the driver knows.
struct World {
    wire: Wire,
    now: Moment,
    /// The connections that are dialed, and those that have a stream, with the bytes that the stream took.
    dialing: BTreeSet<ConnId>,
    streams: BTreeMap<ConnId, Vec<u8>>,
    /// The bytes that streams took, of all connections.
    written: Vec<Vec<u8>>,
    /// The calls without an outcome.
    pending: BTreeSet<CallId>,
    subscribers: BTreeMap<SubscriberId, Channel>,
    last: u64,
}

/// Steps a wire with inputs that the bytes choose.
pub fn wire(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let Ok(mut world) = World::begin(&mut u) else { return };
    for _ in 0..INPUTS {
        if u.is_empty() || world.input(&mut u).is_err() {
            break;
        }
    }
    world.end();
}

impl World {
    fn begin(u: &mut Unstructured<'_>) -> Result<Self> {
        let options = ConnectOptions::default()
            .timeout(Duration::from_millis(u.int_in_range(1..=500)?))
            .resp3(u.arbitrary()?)
            .batch_rows(u.int_in_range(1..=64)?)
            .at_once(u.int_in_range(1..=8)?);
        let url = ServerUrl::parse("redis://server").expect("it is a URL");
        Ok(Self {
            wire: Wire::new(url, options, u.arbitrary()?),
            now: Moment::from_millis(1_000),
            dialing: BTreeSet::new(),
            streams: BTreeMap::new(),
            written: Vec::new(),
            pending: BTreeSet::new(),
            subscribers: BTreeMap::new(),
            last: 0,
        })
    }

    fn input(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        match u.int_in_range(0..=15)? {
            0..=2 => self.submit(u)?,
            3 => {
                if let Some(id) = any(u, &self.pending)? {
                    self.pending.remove(&id);
                    self.step(Input::Abandon(id));
                }
            }
            4 => {
                self.last += 1;
                let id = SubscriberId(self.last);
                let channel = channel(u)?;
                self.subscribers.insert(id, channel.clone());
                self.step(Input::Subscribe(id, channel));
            }
            5 => {
                let known = self.subscribers.keys().copied().collect();
                if let Some(id) = any(u, &known)?
                    && let Some(channel) = self.subscribers.remove(&id)
                {
                    self.step(Input::Unsubscribe(id, channel));
                }
            }
            6 | 7 => self.dialed(u)?,
            8..=11 => self.say(u)?,
            12 => {
                if let Some(id) = any(u, &self.streams.keys().copied().collect())? {
                    self.hang_up(id);
                }
            }
            13 => self.write_all(),
            14 => {
                self.now = self.now + Duration::from_millis(u.int_in_range(0..=1_000)?);
                self.tick();
            }
            _ => self.step(Input::Flush),
        }
        Ok(())
    }

    fn submit(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        self.last += 1;
        let id = CallId(self.last);
        let script = if u.arbitrary()? { &ONE } else { &OTHER };
        // Each call has its own value, by which it is found on the wire.
        let call = Call::of(script).key("key", "k").arg("value", value(id));
        let timeout = Duration::from_millis(u.int_in_range(1..=2_000)?);
        self.pending.insert(id);
        self.step(Input::Submit(id, call, timeout));
        Ok(())
    }

    fn dialed(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let Some(id) = any(u, &self.dialing)? else { return Ok(()) };
        self.dialing.remove(&id);
        if u.ratio(3, 4)? {
            self.streams.insert(id, Vec::new());
            self.step(Input::Connected(id));
        } else {
            self.step(Input::Refused(id, std::io::ErrorKind::ConnectionRefused.into()));
        }
        Ok(())
    }

    /// Passes in bytes of a server, whole or in pieces.
    fn say(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let Some(id) = any(u, &self.streams.keys().copied().collect())? else { return Ok(()) };
        let bytes = match u.ratio(7, 8)? {
            true => u.choose(&SAYINGS)?.as_bytes().to_vec(),
            false => u.arbitrary()?,
        };
        let cut = u.int_in_range(0..=bytes.len())?;
        for part in [&bytes[..cut], &bytes[cut..]] {
            // The first part may have ended the connection.
            if !part.is_empty() && self.streams.contains_key(&id) {
                self.step(Input::Bytes(id, part));
            }
        }
        Ok(())
    }

    fn hang_up(&mut self, id: ConnId) {
        self.written.extend(self.streams.remove(&id));
        self.step(Input::Closed(id));
    }

    fn tick(&mut self) {
        self.step(Input::Tick);
        assert!(self.wire.timer() > self.now, "a timer stays due, so the driver would never sleep");
    }

    /// Lets each stream take all bytes, in two pieces.
    fn write_all(&mut self) {
        for id in self.streams.keys().copied().collect::<Vec<_>>() {
            while let unwritten @ [_, ..] = self.wire.unwritten(id) {
                let count = unwritten.len().div_ceil(2);
                let taken = unwritten[..count].to_vec();
                let Some(stream) = self.streams.get_mut(&id) else { break };
                stream.extend(taken);
                self.step(Input::Wrote(id, count));
            }
        }
    }

    fn step(&mut self, input: Input<'_>) {
        let mut outputs = Vec::new();
        self.wire.step(self.now, input, &mut outputs);
        for output in outputs {
            match output {
                Output::Dial(id, _, limit) => {
                    assert!(limit > Duration::ZERO && self.dialing.insert(id), "{id:?} is dialed once");
                }
                Output::Login | Output::Missing { .. } => panic!("there are neither providers nor replicas"),
                Output::Serves(..) => {}
                Output::Write(id) => {
                    assert!(!self.wire.unwritten(id).is_empty(), "{id:?} has nothing to write");
                }
                Output::Reset(id) => {
                    self.dialing.remove(&id);
                    self.written.extend(self.streams.remove(&id));
                }
                Output::Opened(_) => panic!("nothing asked for a connection alone"),
                Output::Reply(id, outcome) => {
                    assert!(self.pending.remove(&id), "{id:?} has an outcome, and waits for none");
                    let never_sent = outcome.is_err_and(|error| {
                        let by_the_client = matches!(
                            error.kind,
                            StoreErrorKind::Timeout | StoreErrorKind::Unreachable | StoreErrorKind::Closed
                        );
                        error.applied == Applied::No && by_the_client
                    });
                    assert!(!never_sent || self.times_written(id) == 0, "{id:?} was written, and is denied");
                }
                Output::Replaced(_) => {}
                Output::Heard(id, _) => assert!(self.subscribers.contains_key(&id), "{id:?} has left"),
            }
        }
    }

    /// Returns the number of times that streams took a call's value.
    fn times_written(&self, id: CallId) -> usize {
        let word = format!("\r\n{}\r\n", value(id));
        let streams = self.written.iter().chain(self.streams.values());
        streams.map(|bytes| bytes.windows(word.len()).filter(|at| *at == word.as_bytes()).count()).sum()
    }

    /// Closes the wire. Each call then has its outcome, and no call was written more than twice: once more after a
    /// server forgot its script.
    fn end(&mut self) {
        self.write_all();
        self.now = self.now + LONG;
        self.tick();
        self.step(Input::Close);
        assert!(self.pending.is_empty(), "{:?} have no outcome", self.pending);
        assert!(self.streams.is_empty() && self.dialing.is_empty(), "a closed wire keeps connections");
        assert_eq!(self.wire.timer(), Moment::NEVER, "a closed wire has no timer");
        for call in (1..=self.last).map(CallId) {
            assert!(self.times_written(call) <= 2, "{call:?} was written too often");
        }
    }
}

/// Returns the argument of a call, which no other bytes contain.
fn value(id: CallId) -> String {
    format!("value-{}", id.0)
}

fn channel(u: &mut Unstructured<'_>) -> Result<Channel> {
    Ok(Channel::new(u.choose(&["c", "d"])?))
}

/// Returns one of these, if there is any.
fn any<T: Copy>(u: &mut Unstructured<'_>, all: &BTreeSet<T>) -> Result<Option<T>> {
    if all.is_empty() {
        return Ok(None);
    }
    let index = u.choose_index(all.len())?;
    Ok(all.iter().nth(index).copied())
}
