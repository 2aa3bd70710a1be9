//! A fleet with sentinels: one server whose address the sentinels know.
//!
//! Invariant: the client speaks to one master at a time, and that server has said that it is a master. When the sentinels
//! name another server, all connections to the one before it end.
//!
//! # How it works
//! A round asks all sentinels at once. The first answer counts, until another sentinel answers with a later epoch, which
//! each failover raises, so a sentinel that was cut off does not lead the client back. A round begins with the first
//! call, with each message `+switch-master`, when the master is unfit, and every ten seconds, because a message can be
//! lost. The answers also name the other sentinels.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold_proto::{Applied, Channel, Moment, Scope, StoreErrorKind};

use crate::redis::error::Failure;
use crate::redis::url::Address;
use crate::redis::wire::backoff::Backoff;
use crate::redis::wire::ids::{NodeId, SubscriberId};
use crate::redis::wire::io::Output;
use crate::redis::wire::nodes::{Nodes, Turn};
use crate::redis::wire::part::Part;
use crate::redis::wire::report::Report;
use crate::redis::wire::value::{Value, server_error};

/// The time between two rounds without a reason.
const POLL: Duration = Duration::from_secs(10);
/// The most sentinels that the client asks. A fleet has three to seven.
const SENTINELS_MAX: usize = 32;
/// The channel on which a sentinel tells that a fleet has a new master.
const SWITCH: &str = "+switch-master";
/// The subscriber of that channel. It meets no other subscriber, because a sentinel serves no names.
const WATCHER: SubscriberId = SubscriberId(0);

/// The sentinels of one fleet, and its master.
#[derive(Debug)]
pub(crate) struct Sentinel {
    service: String,
    /// The master, under one number for the life of the client.
    pub(crate) master: NodeId,
    /// The sentinels of the URL.
    seeds: BTreeSet<Address>,
    sentinels: BTreeMap<Address, NodeId>,
    /// The epoch of the answer that named the master.
    epoch: u64,
    round: Option<Round>,
    /// True if a round must follow the present one, whose answers may be too old.
    again: bool,
    next_round: Moment,
    pace: Backoff,
    is_closed: bool,
}

/// The answers of one round.
#[derive(Debug, Default)]
struct Round {
    waiting: BTreeSet<NodeId>,
    best: Option<Answer>,
    /// The sentinels that were named.
    named: BTreeSet<Address>,
    failure: Option<Failure>,
}

/// The master according to one sentinel.
#[derive(Clone, Debug)]
struct Answer {
    epoch: u64,
    address: Address,
}

impl Sentinel {
    pub(super) fn new(nodes: &mut Nodes, service: String, seeds: Vec<Address>, seed: u64) -> Self {
        let master = nodes.add(Part::Master, None);
        let sentinels =
            seeds.iter().map(|seed| (seed.clone(), nodes.add(Part::Sentinel, Some(seed.clone()))));
        Self {
            service,
            master,
            sentinels: sentinels.collect(),
            seeds: seeds.into_iter().collect(),
            epoch: 0,
            round: None,
            again: false,
            next_round: Moment::NEVER,
            pace: Backoff::new(seed),
            is_closed: false,
        }
    }

    pub(super) fn reported(&mut self, turn: &mut Turn<'_>, node: NodeId, report: Report) {
        if self.is_closed {
            return;
        }
        match report {
            Report::Opened { again, .. } if node == self.master => {
                self.pace.forget();
                if again {
                    turn.outputs.push(Output::Replaced(Scope::All));
                }
            }
            Report::Unfit | Report::Unknown | Report::Deaf if node == self.master => self.ask_soon(turn),
            Report::Answered(outcome) => self.answered(turn, node, outcome),
            Report::Heard => {
                self.again = self.round.is_some();
                self.ask(turn);
            }
            _ => {}
        }
    }

    /// Begins a round at the pace of the rounds that found no fit master.
    fn ask_soon(&mut self, turn: &mut Turn<'_>) {
        if self.round.is_some() {
            return;
        }
        let not_before = self.pace.not_before();
        if not_before <= turn.now {
            self.ask(turn);
        } else {
            self.next_round = self.next_round.min(not_before);
        }
    }

    /// Begins a round, unless one is under way.
    fn ask(&mut self, turn: &mut Turn<'_>) {
        if self.round.is_some() {
            return;
        }
        self.pace.attempted(turn.now);
        self.next_round = Moment::NEVER;
        let waiting: BTreeSet<NodeId> = self.sentinels.values().copied().collect();
        let question = |subject: &str| vec!["SENTINEL".to_owned(), subject.to_owned(), self.service.clone()];
        let questions = [question("MASTER"), question("SENTINELS")];
        for node in &waiting {
            turn.with(*node, |parts| {
                parts.query.ask(&mut parts.step, questions.to_vec());
                parts.subscriptions.keep(&mut parts.step, WATCHER, Channel::new(SWITCH));
            });
        }
        self.round = Some(Round { waiting, ..Round::default() });
    }

    fn answered(&mut self, turn: &mut Turn<'_>, node: NodeId, outcome: Result<Vec<Value>, Failure>) {
        let Some(round) = &mut self.round else { return };
        round.waiting.remove(&node);
        let answer = outcome.and_then(|values| {
            let mut values = values.into_iter();
            let (master, others) = (values.next(), values.next());
            round.named.extend(addresses(others.as_ref()));
            read_master(master, &self.service)
        });
        match answer {
            Ok(answer) if round.best.as_ref().is_none_or(|best| answer.epoch > best.epoch) => {
                round.best = Some(answer);
            }
            Ok(_) => {}
            Err(failure) => round.failure = Some(failure),
        }
        let is_over = round.waiting.is_empty();
        let best = round.best.clone();
        if let Some(answer) = best.filter(|answer| is_over || answer.epoch >= self.epoch) {
            self.adopt(turn, answer);
        }
        if is_over {
            self.end_round(turn);
        }
    }

    /// Goes on with the master that a sentinel named.
    fn adopt(&mut self, turn: &mut Turn<'_>, Answer { epoch, address }: Answer) {
        self.epoch = epoch;
        let address = turn.nodes.settings().options.mapped(address);
        let moved = turn.with(self.master, |parts| {
            if parts.step.server.address() == Some(&address) {
                return false;
            }
            let is_first = parts.step.server.address().is_none();
            parts.step.server.move_to(address);
            parts.move_on();
            !is_first
        });
        if moved == Some(true) {
            turn.outputs.push(Output::Replaced(Scope::All));
        }
    }

    fn end_round(&mut self, turn: &mut Turn<'_>) {
        let Some(round) = self.round.take() else { return };
        self.next_round = turn.now + POLL;
        match round.best {
            Some(_) => self.learn(turn, round.named),
            None => {
                let failure = round.failure.unwrap_or(Failure::new(StoreErrorKind::Unreachable, Applied::No));
                turn.with(self.master, |parts| parts.not_found(&failure));
            }
        }
        if std::mem::take(&mut self.again) {
            self.ask(turn);
        }
    }

    /// Adds the sentinels that were named, and drops those that neither the URL nor a sentinel names.
    fn learn(&mut self, turn: &mut Turn<'_>, named: BTreeSet<Address>) {
        let named: BTreeSet<Address> =
            named.into_iter().map(|address| turn.nodes.settings().options.mapped(address)).collect();
        self.sentinels.retain(|address, node| {
            let stays = self.seeds.contains(address) || named.contains(address);
            if !stays {
                turn.remove(*node);
            }
            stays
        });
        for address in named {
            if self.sentinels.len() < SENTINELS_MAX && !self.sentinels.contains_key(&address) {
                let node = turn.nodes.add(Part::Sentinel, Some(address.clone()));
                turn.with(node, |parts| {
                    parts.subscriptions.keep(&mut parts.step, WATCHER, Channel::new(SWITCH));
                });
                self.sentinels.insert(address, node);
            }
        }
    }

    pub(super) fn tick(&mut self, turn: &mut Turn<'_>) {
        if self.next_round <= turn.now && !self.is_closed {
            self.ask(turn);
        }
    }

    pub(super) fn timer(&self) -> Moment {
        if self.round.is_some() { Moment::NEVER } else { self.next_round }
    }

    pub(super) fn close(&mut self) {
        self.is_closed = true;
        self.next_round = Moment::NEVER;
    }
}

/// Reads the answer to `SENTINEL MASTER`.
fn read_master(value: Option<Value>, service: &str) -> Result<Answer, Failure> {
    let malformed = || Failure::new(StoreErrorKind::Malformed, Applied::No);
    match value {
        Some(Value::Error(text)) if text.starts_with(b"ERR No such master") => {
            Err(Failure::of_service(service))
        }
        Some(Value::Error(text)) => Err(server_error(&text).of_connect()),
        Some(value) => {
            let epoch = value.field("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or_default();
            let address = address(&value).ok_or_else(malformed)?;
            Ok(Answer { epoch, address })
        }
        None => Err(malformed()),
    }
}

/// Reads the answer to `SENTINEL SENTINELS`.
fn addresses(value: Option<&Value>) -> Vec<Address> {
    let Some(Value::Array(entries)) = value else { return Vec::new() };
    entries.iter().filter_map(address).collect()
}

/// Reads the address in an entry of a sentinel.
fn address(entry: &Value) -> Option<Address> {
    let host = entry.field("ip").filter(|host| !host.is_empty())?.to_owned();
    let port = entry.field("port")?.parse().ok().filter(|port| *port > 0)?;
    Some(Address::Tcp { host, port })
}
