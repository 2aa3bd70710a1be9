//! The first commands of a connection: log in, choose the database, ping, choose the protocol, and on the first
//! connection identify the server.
//!
//! Invariant: a handshake that ends well has logged in and selected its database. Its failures repeat no password.
//!
//! # How it works
//! The first commands travel in one write. HELLO comes behind PING, because PING decides about the login, and because
//! no ACL can forbid HELLO. It asks for RESP3. A server that refuses keeps RESP2. On the first connection, HELLO also
//! reports whether the server is a node of a cluster, and two more commands travel with it: a PUBLISH to a channel of no
//! lock (SPUBLISH, if the channels are known to be sharded), and a read-only script that checks whether the user may
//! subscribe to it and run scripts. Only a node of a cluster gets further commands: CLUSTER INFO, which reports whether the node serves
//! all names, and an SPUBLISH without a subscriber, whose reply shows whether the node knows the command and lets this
//! user have it. A client whose calls need replicas or disks asks on the first connection whether the server can wait for
//! them (WAIT, WAITAOF). A server that does not know the script's command is asked whether it runs scripts at all (EVAL).

use std::collections::VecDeque;

use leasehold_proto::recipe::rights::may_subscribe;
use leasehold_proto::{Applied, Confirm, StoreErrorKind};

use super::encode;
use super::facts::ServerFacts;
use super::login::Login;
use super::part::Part;
use super::secret::Secret;
use super::value::{Value, malformed, server_error};
use crate::redis::channels::{Channels, PROBE};
use crate::redis::connect::ConnectOptions;
use crate::redis::error::Failure;
use crate::url::{Credentials, ServerUrl};

/// The commands without an answer, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// AUTH and SELECT, which must succeed.
    Login,
    Ping,
    /// ROLE, which must say that the server is a master.
    Role,
    Name,
    /// WAITAOF, which must succeed.
    Fsync,
    /// WAIT, which the server must know.
    Wait,
    Hello {
        resp3: bool,
    },
    Publish,
    MaySubscribe,
    /// EVAL, which the server must know.
    Eval,
    ClusterInfo,
    Probe,
}

/// The configuration of a handshake.
#[derive(Clone, Copy)]
pub(super) struct Terms<'a> {
    pub(super) url: &'a ServerUrl,
    pub(super) options: &'a ConnectOptions,
    pub(super) part: Part,
    /// The login that a provider has given.
    pub(super) login: Option<&'a Login>,
    /// The kind of channels, if a setting or another server has decided.
    pub(super) channels: Option<Channels>,
    /// The facts, if a connection has found them out.
    pub(super) facts: Option<&'a ServerFacts>,
}

impl<'a> Terms<'a> {
    /// Returns the login, which sentinels have of their own.
    fn login(&self) -> Option<&'a Credentials> {
        self.login.map(|login| &login.credentials).or(self.part.peer().login(self.url))
    }
}

/// The handshake of one connection.
#[derive(Debug)]
pub(super) struct Handshake {
    steps: VecDeque<Step>,
    /// The reason why the server cannot serve at the moment.
    greeting: Result<(), Failure>,
    is_first: bool,
    is_node: bool,
    /// True once the number of masters was asked for, or does not matter.
    knows_masters: bool,
    /// True once the commands for a node of a cluster were sent.
    was_probed: bool,
    resp3: bool,
    is_denied: bool,
    channels: Option<Channels>,
    secret: Secret,
}

/// The outcome of a handshake.
#[derive(Debug)]
pub(super) struct Greeted {
    /// The reason why the server cannot serve at the moment, for example because it is loading its data. Each call
    /// receives that error itself, so the connection stays usable.
    pub(super) greeting: Result<(), Failure>,
    /// The facts, if this connection found them out.
    pub(super) facts: Option<ServerFacts>,
    /// True if the connection speaks RESP3.
    pub(super) resp3: bool,
}

impl Handshake {
    /// Appends the first commands.
    pub(super) fn begin(terms: Terms<'_>, out: &mut Vec<u8>) -> Self {
        let is_first = terms.facts.is_none() && terms.part != Part::Sentinel;
        let mut steps = VecDeque::new();
        if let Some(login) = terms.login() {
            encode::command(out, &login.command());
            steps.push_back(Step::Login);
        }
        if terms.url.db != 0 && terms.part != Part::Sentinel {
            encode::command(out, &["SELECT", &terms.url.db.to_string()]);
            steps.push_back(Step::Login);
        }
        encode::command(out, &["PING"]);
        steps.push_back(Step::Ping);
        if terms.part == Part::Master {
            encode::command(out, &["ROLE"]);
            steps.push_back(Step::Role);
        }
        if is_first && terms.options.confirmation.fsync {
            encode::command(out, &["WAITAOF", "1", "0", "1"]);
            steps.push_back(Step::Fsync);
        } else if is_first && terms.options.confirmation.replicas != Confirm::None {
            encode::command(out, &["WAIT", "0", "1"]);
            steps.push_back(Step::Wait);
        }
        if let Some(name) = &terms.options.client_name {
            encode::command(out, &["CLIENT", "SETNAME", name]);
            steps.push_back(Step::Name);
        }
        if asks_for_resp3(terms) {
            encode::command(out, &["HELLO", "3"]);
            steps.push_back(Step::Hello { resp3: true });
        } else if is_first {
            encode::command(out, &["HELLO"]);
            steps.push_back(Step::Hello { resp3: false });
        }
        if is_first {
            encode::command(out, &[terms.channels.unwrap_or(Channels::Plain).publish(), PROBE, ""]);
            let may_subscribe = may_subscribe(PROBE);
            encode::call(out, ("EVAL_RO", may_subscribe.script().source()), &may_subscribe);
            steps.extend([Step::Publish, Step::MaySubscribe]);
        }
        Self {
            steps,
            greeting: Ok(()),
            is_first,
            is_node: false,
            knows_masters: terms.part != Part::Alone,
            was_probed: false,
            resp3: false,
            is_denied: false,
            channels: terms.channels,
            secret: Secret::new(terms.login().map(Credentials::secret)),
        }
    }

    /// Takes the answer to the oldest command, and appends further commands if necessary. Returns the outcome when no
    /// answer is missing.
    pub(super) fn answer(&mut self, value: Value, out: &mut Vec<u8>) -> Result<Option<Greeted>, Failure> {
        let step = self.steps.pop_front().ok_or_else(malformed)?;
        let value = self.secret.masked(value);
        match (step, value) {
            (Step::Login, value) if value.is_text("OK") => {}
            (Step::Ping, value) if value.is_text("PONG") => {}
            (Step::Ping, Value::Error(text)) => {
                self.greeting = read_excuse(server_error(&text).of_unsent())?;
            }
            (Step::Login, Value::Error(text)) => return Err(server_error(&text)),
            (Step::Login | Step::Ping, _) => return Err(malformed()),
            // A demoted master refuses the first write, so a user without the right to the command is served too.
            (Step::Role, value) if is_replica(&value) => {
                return Err(Failure::new(StoreErrorKind::ReadOnly, Applied::No));
            }
            (Step::Role, _) => {}
            (Step::Fsync, Value::Array(_)) => {}
            // A server that cannot serve at the moment may not look at its disk.
            (Step::Fsync, _) if self.greeting.is_err() => {}
            (Step::Fsync, Value::Error(text)) => return Err(lacks_fsync(&text)),
            (Step::Fsync, _) => return Err(malformed()),
            (Step::Wait, Value::Error(text)) if is_unknown(&text) => {
                return Err(Failure::lacks("the server has no WAIT, so leave `replicas` out"));
            }
            (Step::Wait, Value::Error(text)) if is_denied_by(&text) => return Err(server_error(&text)),
            (Step::Wait, _) => {}
            // The name serves `CLIENT LIST`, and locks work without it.
            (Step::Name, _) => {}
            (Step::Hello { .. }, Value::Array(pairs)) => {
                self.is_node = is_pair(&pairs, "mode", |mode| mode.is_text("cluster"));
                self.resp3 = is_pair(&pairs, "proto", |proto| *proto == Value::Int(3));
            }
            (Step::Hello { resp3: true }, Value::Error(text)) if self.is_first && !is_unknown(&text) => {
                // The server knows HELLO, and not this protocol.
                encode::command(out, &["HELLO"]);
                self.steps.push_back(Step::Hello { resp3: false });
            }
            (Step::Hello { .. }, _) => {}
            (Step::Publish, Value::Error(text))
                if self.channels == Some(Channels::Sharded) && is_unknown(&text) =>
            {
                return Err(Failure::lacks("the server has no SPUBLISH, which sharded channels need"));
            }
            (Step::Publish, value) => self.is_denied |= is_denied(&value),
            // Redis 6 knows neither the command nor the check, and a server without scripts no EVAL either.
            (Step::MaySubscribe, Value::Error(text)) if is_unknown(&text) => {
                // With a key, since a proxy or a setting may refuse scripts without keys, and each lock has one.
                encode::command(out, &["EVAL", "return 1", "1", PROBE]);
                self.steps.push_back(Step::Eval);
            }
            // A user who may not run the command may still have the right.
            (Step::MaySubscribe, value) => self.is_denied |= value == Value::Int(0) || is_denied(&value),
            (Step::Eval, Value::Error(text)) if is_unknown(&text) => {
                return Err(Failure::lacks("the server has no EVAL, and every lock runs scripts"));
            }
            // A server that could run scripts, and is not set up to, says so itself.
            (Step::Eval, Value::Error(text)) if server_error(&text).kind == StoreErrorKind::Server => {
                return Err(server_error(&text));
            }
            // A native command would then grant a plain lock that no script may release.
            (Step::Eval, value) => self.is_denied |= is_denied(&value),
            (Step::ClusterInfo, value) => {
                if let Some(masters @ 2..) = masters(&value) {
                    return Err(Failure::of_cluster(masters));
                }
                self.probe(out);
            }
            (Step::Probe, value) => {
                self.channels =
                    Some(if takes_spublish(&value) { Channels::Sharded } else { Channels::Plain });
            }
        }
        Ok(if self.steps.is_empty() { self.end(out) } else { None })
    }

    /// Returns the password that later errors of the server must not repeat.
    pub(super) fn into_secret(self) -> Secret {
        self.secret
    }

    /// Ends the handshake, unless the server needs further commands to be identified.
    fn end(&mut self, out: &mut Vec<u8>) -> Option<Greeted> {
        // A server that cannot serve at the moment identifies itself on the next connection.
        let identifies = self.is_first && self.greeting.is_ok();
        if identifies && self.is_node && !self.was_probed {
            self.was_probed = true;
            if self.knows_masters {
                self.probe(out);
            } else {
                encode::command(out, &["CLUSTER", "INFO"]);
                self.steps.push_back(Step::ClusterInfo);
            }
            if !self.steps.is_empty() {
                return None;
            }
        }
        let facts = identifies.then(|| ServerFacts {
            is_node: self.is_node,
            channels: self.channels.unwrap_or(Channels::Plain),
            doubts_channels: self.is_denied,
            resp3: self.resp3,
        });
        Some(Greeted { greeting: std::mem::replace(&mut self.greeting, Ok(())), facts, resp3: self.resp3 })
    }

    /// Sends the probe for sharded channels, unless a setting decides.
    fn probe(&mut self, out: &mut Vec<u8>) {
        if self.channels.is_none() {
            encode::command(out, &["SPUBLISH", PROBE, ""]);
            self.steps.push_back(Step::Probe);
        }
    }
}

/// Returns true if the connection asks for RESP3, and so may receive values of RESP3.
pub(super) fn asks_for_resp3(terms: Terms<'_>) -> bool {
    terms.options.resp3 && terms.facts.is_none_or(|facts| facts.resp3)
}

/// Accepts an error reply to PING that comes from a Redis after a successful login.
fn read_excuse(failure: Failure) -> Result<Result<(), Failure>, Failure> {
    match failure.kind {
        // The login worked, but the user may not ping. Locks need no more than their own commands.
        StoreErrorKind::PermissionDenied => Ok(Ok(())),
        StoreErrorKind::Loading
        | StoreErrorKind::Busy
        | StoreErrorKind::MasterDown
        | StoreErrorKind::Misconfigured => Ok(Err(failure)),
        _ => Err(failure),
    }
}

/// Returns true if the value of this key has the property.
fn is_pair(pairs: &[Value], key: &str, is: impl Fn(&Value) -> bool) -> bool {
    pairs.chunks_exact(2).any(|pair| pair[0].is_text(key) && is(&pair[1]))
}

/// Returns true if the answer to ROLE comes from a replica or a sentinel.
fn is_replica(role: &Value) -> bool {
    matches!(role, Value::Array(parts) if parts.first().is_some_and(|part| !part.is_text("master")))
}

/// Returns the failure of a server that cannot say what is on its disk.
fn lacks_fsync(text: &[u8]) -> Failure {
    let failure = server_error(text);
    match failure.kind {
        StoreErrorKind::Server if is_unknown(text) => {
            Failure::lacks("the server has no WAITAOF, which came with Redis 7.2; leave `fsync` out")
        }
        StoreErrorKind::Server => {
            Failure::lacks("the server refuses WAITAOF; set `appendonly yes`, or leave `fsync` out")
        }
        _ => failure,
    }
}

fn is_unknown(text: &[u8]) -> bool {
    text.starts_with(b"ERR unknown command")
}

fn is_denied(answer: &Value) -> bool {
    matches!(answer, Value::Error(text) if is_denied_by(text))
}

fn is_denied_by(text: &[u8]) -> bool {
    server_error(text).kind == StoreErrorKind::PermissionDenied
}

/// Returns the number of masters with slots, if the answer to CLUSTER INFO contains it.
fn masters(info: &Value) -> Option<u32> {
    let Value::Text(text) = info else { return None };
    let text = std::str::from_utf8(text).ok()?;
    text.lines().find_map(|line| line.strip_prefix("cluster_size:"))?.trim().parse().ok()
}

/// Returns true if SPUBLISH would work on a channel of this node that this user may use.
fn takes_spublish(answer: &Value) -> bool {
    match answer {
        Value::Int(_) => true,
        Value::Error(text) => match server_error(text).kind {
            StoreErrorKind::WrongNode | StoreErrorKind::ClusterDown | StoreErrorKind::TryAgain => true,
            // The refusal may be about the probe's channel, and not about the command.
            StoreErrorKind::PermissionDenied => !String::from_utf8_lossy(text).contains("'spublish'"),
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests;
