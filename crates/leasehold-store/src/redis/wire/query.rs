//! A query: a connection of its own that asks a server a few commands, and closes.
//!
//! Invariant: at most one query of a server is under way. Each has one outcome, within the limit of an attempt to
//! connect.
//!
//! # How it works
//! Cluster maps and sentinel answers are needed rarely, and they are long. On their own connection they delay no call,
//! and a server that does not answer them fails no call.

use leasehold_proto::{Applied, Moment, StoreErrorKind};

use super::codec::Decoder;
use super::dialing::Dialing;
use super::encode;
use super::ids::ConnId;
use super::io::Output;
use super::opening::Opened;
use super::outgoing::Outgoing;
use super::report::Report;
use super::secret::Secret;
use super::server::Step;
use super::value::Value;
use crate::redis::breach::Breach;
use crate::redis::error::Failure;

/// The commands of a query, each as its words.
pub(super) type Commands = Vec<Vec<String>>;

/// The queries of one server.
#[derive(Debug)]
pub(super) struct Query {
    dialing: Dialing,
    /// The commands that are to be asked, while there is no connection.
    wanted: Option<Commands>,
    asked: Option<Asked>,
}

/// A connection on which the commands were asked.
#[derive(Debug)]
struct Asked {
    id: ConnId,
    outgoing: Outgoing,
    decoder: Decoder,
    secret: Secret,
    count: usize,
    answers: Vec<Value>,
    until: Moment,
}

impl Query {
    pub(super) fn new(seed: u64) -> Self {
        Self { dialing: Dialing::new(seed), wanted: None, asked: None }
    }

    /// Returns true if no query is under way.
    pub(super) const fn is_idle(&self) -> bool {
        self.wanted.is_none() && self.asked.is_none()
    }

    /// Asks these commands, unless a query is under way.
    pub(super) fn ask(&mut self, step: &mut Step<'_>, commands: Commands) {
        if self.is_idle() {
            self.wanted = Some(commands);
            let _ = self.dialing.begin(step);
        }
    }

    /// Ends the query without an outcome.
    pub(super) fn stop(&mut self, step: &mut Step<'_>) {
        self.wanted = None;
        self.dialing.stop(step);
        if let Some(asked) = self.asked.take() {
            step.output(Output::Reset(asked.id));
        }
    }

    /// Returns the attempts to connect.
    pub(super) const fn dialing_mut(&mut self) -> &mut Dialing {
        &mut self.dialing
    }

    pub(super) fn connected(&mut self, step: &mut Step<'_>, id: ConnId) {
        self.dialing.connected(step, id);
    }

    pub(super) fn closed(&mut self, step: &mut Step<'_>, id: ConnId, failure: &Failure) {
        if let Some(failure) = self.dialing.ended(step, id, failure) {
            self.fail(step, failure);
        } else if self.asked.take_if(|asked| asked.id == id).is_some() {
            self.fail(step, failure.clone());
        }
    }

    /// Takes the bytes of a connection.
    pub(super) fn receive(&mut self, step: &mut Step<'_>, id: ConnId, bytes: &[u8]) {
        match self.dialing.receive(step, id, bytes) {
            Some(Ok(opened)) => self.opened(step, opened),
            Some(Err(failure)) => self.fail(step, failure),
            None => self.receive_answers(step, id, bytes),
        }
    }

    fn opened(&mut self, step: &mut Step<'_>, opened: Opened) {
        let commands = self.wanted.take().unwrap_or_default();
        if let Err(failure) = opened.greeted.greeting {
            step.output(Output::Reset(opened.id));
            return self.fail(step, failure);
        }
        let Opened { id, mut outgoing, mut decoder, secret, .. } = opened;
        decoder.accept_maps();
        for command in &commands {
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            encode::command(outgoing.buffer(), &words);
        }
        outgoing.announce(step, id);
        let until = step.now + step.server.limit();
        let (count, answers) = (commands.len(), Vec::new());
        self.asked = Some(Asked { id, outgoing, decoder, secret, count, answers, until });
    }

    fn receive_answers(&mut self, step: &mut Step<'_>, id: ConnId, mut bytes: &[u8]) {
        let Some(asked) = self.asked.as_mut().filter(|asked| asked.id == id) else { return };
        let outcome = loop {
            match asked.decoder.next(&mut bytes) {
                Ok(Some(Value::Push(_))) => {}
                Ok(Some(value)) => asked.answers.push(asked.secret.masked(value)),
                Ok(None) => break Ok(()),
                Err(breach) => break Err(Failure::breach(breach)),
            }
            if asked.answers.len() > asked.count {
                break Err(Failure::breach(Breach::Unasked));
            }
        };
        match outcome {
            Ok(()) if asked.answers.len() < asked.count => {}
            Ok(()) => {
                let answers = std::mem::take(&mut asked.answers);
                self.end(step);
                self.dialing.was_useful();
                step.report(Report::Answered(Ok(answers)));
            }
            Err(failure) => {
                self.end(step);
                self.fail(step, failure);
            }
        }
    }

    fn end(&mut self, step: &mut Step<'_>) {
        if let Some(asked) = self.asked.take() {
            step.output(Output::Reset(asked.id));
        }
    }

    fn fail(&mut self, step: &mut Step<'_>, failure: Failure) {
        self.wanted = None;
        step.report(Report::Answered(Err(failure.of_unsent())));
    }

    pub(super) fn wrote(&mut self, id: ConnId, count: usize) {
        if let Some(outgoing) = self.dialing.outgoing(id) {
            outgoing.wrote(count);
        } else if let Some(asked) = self.asked.as_mut().filter(|asked| asked.id == id) {
            asked.outgoing.wrote(count);
        }
    }

    pub(super) fn tick(&mut self, step: &mut Step<'_>) {
        if let Some(failure) = self.dialing.tick(step) {
            self.fail(step, failure);
        } else if self.wanted.is_some() {
            // A pause of the pace is over.
            let _ = self.dialing.begin(step);
        }
        if self.asked.as_ref().is_some_and(|asked| asked.until <= step.now) {
            self.end(step);
            self.fail(step, Failure::new(StoreErrorKind::Timeout, Applied::No));
        }
    }

    /// Returns the earliest time at which [`tick`](Self::tick) may have something to do.
    pub(super) fn timer(&self) -> Moment {
        self.asked.as_ref().map_or(Moment::NEVER, |asked| asked.until).min(self.dialing.timer())
    }

    pub(super) fn unwritten(&self, id: ConnId) -> Option<&[u8]> {
        let asked = || self.asked.as_ref().filter(|asked| asked.id == id);
        self.dialing.unwritten(id).or_else(|| asked().map(|asked| asked.outgoing.unwritten()))
    }
}
