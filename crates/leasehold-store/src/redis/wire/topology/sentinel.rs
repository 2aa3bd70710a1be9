//! A fleet with sentinels: one server whose address the sentinels know.
//!
//! Invariant: the client speaks to one master at a time, and that server has said that it is a master. When the sentinels
//! name another server, all connections to the one before it end.
//!
//! # How it works
//! A round asks all sentinels at once. The first answer counts, until another sentinel answers with a later epoch,
//! which each failover raises, so a sentinel that was cut off cannot lead the client back. The sentinel that leads a
//! failover raises its epoch first, and names the old master until the replicas follow the new one. So an answer during
//! a failover ranks below the other answers of its epoch. An answer that ranks below that of the present master counts
//! at the end of its round, if the master is unfit or most sentinels have answered, which is how a fleet looks that was
//! created anew.
//!
//! A round begins with the first call, with each message `+switch-master`, when the master is unfit, and every ten
//! seconds, because a message can be lost. A sentinel that is silent does not keep the next round waiting for longer than
//! [`HEDGE`]. The answers also name the other sentinels.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold_proto::{Applied, Channel, Moment, Scope, StoreErrorKind};

use crate::redis::error::Failure;
use crate::redis::wire::backoff::Backoff;
use crate::redis::wire::ids::{NodeId, SubscriberId};
use crate::redis::wire::io::Output;
use crate::redis::wire::node::Node;
use crate::redis::wire::nodes::{Nodes, Turn};
use crate::redis::wire::part::Part;
use crate::redis::wire::report::Report;
use crate::redis::wire::value::{Value, server_error};
use crate::url::Address;

/// The time between two rounds without a reason, because the message of a failover can be lost.
const POLL: Duration = Duration::from_secs(10);
/// The time after which a round that has an answer makes room for the next one, so that one silent sentinel does not
/// delay it.
const HEDGE: Duration = Duration::from_millis(300);
/// The most sentinels that the client asks. A fleet has three to seven, and sentinels name each other, so the list
/// needs a bound.
const SENTINELS_MAX: usize = 32;
/// The channel on which a sentinel announces a new master.
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
    /// The rank of the answer that named the master.
    rank: Rank,
    /// The latest epoch of an answer without a failover under way.
    settled_epoch: u64,
    /// True from the opening of a connection to the master until the master is unfit or is replaced.
    is_fit: bool,
    round: Option<Round>,
    /// The time from which the next round is wanted.
    next_round: Moment,
    pace: Backoff,
    is_closed: bool,
}

/// The answers of one round.
#[derive(Debug)]
struct Round {
    began: Moment,
    waiting: BTreeSet<NodeId>,
    best: Option<Answer>,
    /// The sentinels that named a master.
    answered: BTreeSet<NodeId>,
    /// The sentinels that were named.
    named: BTreeSet<Address>,
    failure: Option<Failure>,
}

/// The master according to one sentinel.
#[derive(Clone, Debug)]
struct Answer {
    rank: Rank,
    address: Address,
}

/// The order of answers, the latest last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    epoch: u64,
    /// False while the sentinel is about a failover, whose epoch it may already have.
    is_settled: bool,
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
            rank: Rank::default(),
            settled_epoch: 0,
            is_fit: false,
            round: None,
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
                self.is_fit = true;
                if again {
                    turn.outputs.push(Output::Replaced(Scope::All));
                }
            }
            Report::Unfit if node == self.master => {
                self.is_fit = false;
                self.ask_from(turn, self.pace.not_before());
            }
            Report::Deaf | Report::Unconfirmed if node == self.master => {
                self.ask_from(turn, self.pace.not_before());
            }
            Report::Unknown if node == self.master && self.round.is_none() => {
                self.ask_from(turn, self.pace.not_before());
            }
            Report::Answered(outcome) => self.answered(turn, node, outcome),
            Report::Heard => self.ask_from(turn, turn.now),
            _ => {}
        }
    }

    /// Wants a round from this time on, and begins it if it is due.
    fn ask_from(&mut self, turn: &mut Turn<'_>, time: Moment) {
        self.next_round = self.next_round.min(time);
        self.ask_if_due(turn);
    }

    fn ask_if_due(&mut self, turn: &mut Turn<'_>) {
        if self.timer() <= turn.now && !self.is_closed {
            self.ask(turn);
        }
    }

    /// Begins a round of the sentinels that still owe no answer. A round under way ends.
    fn ask(&mut self, turn: &mut Turn<'_>) {
        if let Some(round) = self.round.take() {
            self.learn(turn, round);
        }
        self.pace.attempted(turn.now);
        self.next_round = Moment::NEVER;
        let is_free = |node: &NodeId| turn.nodes.get(*node).is_some_and(Node::may_be_asked);
        let waiting: BTreeSet<NodeId> = self.sentinels.values().copied().filter(is_free).collect();
        if waiting.is_empty() {
            self.next_round = turn.now + HEDGE;
            return;
        }
        let question = |subject: &str| vec!["SENTINEL".to_owned(), subject.to_owned(), self.service.clone()];
        let questions = [question("MASTER"), question("SENTINELS")];
        for node in &waiting {
            turn.with(*node, |parts| {
                parts.query.ask(&mut parts.step, questions.to_vec());
                parts.subscriptions.keep(&mut parts.step, WATCHER, Channel::new(SWITCH));
            });
        }
        let (began, best, answered, named, failure) =
            (turn.now, None, BTreeSet::new(), BTreeSet::new(), None);
        self.round = Some(Round { began, waiting, best, answered, named, failure });
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
        round.answered.extend(answer.is_ok().then_some(node));
        match answer {
            Ok(answer) if round.best.as_ref().is_none_or(|best| answer.rank > best.rank) => {
                round.best = Some(answer);
            }
            Ok(_) => {}
            Err(failure) => round.failure = Some(failure),
        }
        let is_over = round.waiting.is_empty();
        let best = round.best.clone();
        let leads_back = is_over && (!self.is_fit || 2 * round.answered.len() > self.sentinels.len());
        if let Some(answer) = best.filter(|answer| leads_back || answer.rank >= self.rank) {
            self.adopt(turn, answer);
        }
        if is_over {
            self.end_round(turn);
        }
    }

    /// Goes on with the master that a sentinel named.
    fn adopt(&mut self, turn: &mut Turn<'_>, Answer { rank, address }: Answer) {
        let is_later = rank.is_settled && rank.epoch > self.settled_epoch;
        if is_later {
            self.settled_epoch = rank.epoch;
        }
        self.rank = rank;
        let address = turn.nodes.settings().options.mapped(address);
        let replaces = turn.with(self.master, |parts| {
            if parts.step.server.address() == Some(&address) {
                // Another master has served between two epochs of this one, which may lack what it had before.
                return is_later;
            }
            let is_first = parts.step.server.address().is_none();
            parts.step.server.move_to(address);
            parts.move_on();
            self.is_fit &= is_first;
            !is_first
        });
        if replaces == Some(true) {
            turn.outputs.push(Output::Replaced(Scope::All));
        }
    }

    fn end_round(&mut self, turn: &mut Turn<'_>) {
        let Some(round) = self.round.take() else { return };
        self.next_round = self.next_round.min(turn.now + POLL);
        match round.best {
            Some(_) => self.learn(turn, round),
            None => {
                let failure = round.failure.unwrap_or(Failure::new(StoreErrorKind::Unreachable, Applied::No));
                turn.with(self.master, |parts| parts.not_found(&failure));
            }
        }
        self.ask_if_due(turn);
    }

    /// Adds the sentinels that were named, and drops those that have not answered and that neither the URL nor a sentinel
    /// names. (No sentinel names itself.)
    fn learn(&mut self, turn: &mut Turn<'_>, Round { named, answered, .. }: Round) {
        let named: BTreeSet<Address> =
            named.into_iter().map(|address| turn.nodes.settings().options.mapped(address)).collect();
        self.sentinels.retain(|address, node| {
            let stays = self.seeds.contains(address) || named.contains(address) || answered.contains(node);
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
        self.ask_if_due(turn);
    }

    pub(super) fn timer(&self) -> Moment {
        match &self.round {
            None => self.next_round,
            Some(round) if round.best.is_some() && self.next_round < Moment::NEVER => {
                self.next_round.max(round.began + HEDGE)
            }
            Some(_) => Moment::NEVER,
        }
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
        Some(Value::Error(text)) if text.starts_with(b"ERR unknown command") => Err(Failure::lacks(
            "the server is not a sentinel; name the sentinels, whose default port is 26379, or use `redis://`",
        )),
        Some(Value::Error(text)) => Err(server_error(&text).of_unsent()),
        Some(value) => {
            let epoch = value.field("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or_default();
            let address = address(&value).ok_or_else(malformed)?;
            let flags = value.field("flags").unwrap_or_default();
            let is_settled = !flags.split(',').any(|flag| flag == "failover_in_progress");
            Ok(Answer { rank: Rank { epoch, is_settled }, address })
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
