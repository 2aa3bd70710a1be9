//! Answers the questions that operators ask a client.
//!
//! Invariant: nothing here changes what the engine knows, and a failure here does not fail the client. A flood of
//! questions costs a bounded amount of memory, and ten answers a second.
//!
//! # How it works
//! A client stays unseen until it listens to a channel, renews a hold, or asks for a long lease, so one with short holds and
//! without waiters sends no command and opens no connection for this. Then it registers its card, and listens for questions
//! if it may. It answers after a pause of its own, because thousands of clients hear a question at the same moment. The
//! work for an answer is done in pages, between which the driver turns to replies and renewals.

mod work;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::operate::{self, Asked, RequestId};
use leasehold_proto::{Call, Channel, Moment, Reply, StoreError, StoreErrorKind};
use leasehold_store::Heard;

use self::work::Work;
use crate::runtime::identity::Identity;
use crate::runtime::shared::Shared;

/// The duration of a registration. A card stays this long after a crash, so operators can see which client vanished.
const REGISTERED: Duration = Duration::from_secs(3600);
/// The interval of registrations, a third of their duration, so that two of them may fail.
const REGISTER_EVERY: Duration = Duration::from_secs(20 * 60);
/// The first and the longest pause after a failed registration. Nothing but the view of operators depends on it.
const RETRY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];
/// The pause before an answer is pushed again, because the asker's list was full.
const FULL: Duration = Duration::from_millis(100);
/// How often an answer is pushed again: 20 times 100 ms cover the two to four seconds that an asker waits.
const PUSHES: u8 = 20;
/// The time that each client adds to the spread of the answers, so that 10,000 clients answer within two seconds and
/// not at once.
const SPREAD: Duration = Duration::from_micros(200);
/// The longest pause before an answer, which is how long an asker waits at least.
const SPREAD_MAX: Duration = Duration::from_secs(2);
/// The most answers in a second, so that a flood of questions cannot keep the driver from its renewals.
const A_SECOND: u32 = 10;
/// The most questions that wait for their answer. More are dropped, because anybody on the channel can send them.
const WAITING_MAX: usize = 16;

/// What a call was for.
#[derive(Debug)]
pub(super) enum Purpose {
    Register,
    Answer { request: RequestId, text: String, pushes: u8 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing has made the client worth a connection.
    Unseen,
    /// The client registers for the first time.
    Registering,
    Listening,
    /// The client may not answer.
    Off,
}

/// The state of one client.
#[derive(Debug)]
pub(super) struct Visible {
    identity: Option<Arc<Identity>>,
    phase: Phase,
    /// The time of the next registration.
    register_at: Moment,
    is_registering: bool,
    /// True if a subscription was made again meanwhile, perhaps at another server.
    is_outdated: bool,
    /// The pause after the next registration that fails.
    retry: Duration,
    /// The questions, each with the time of its answer.
    asked: VecDeque<(Moment, Asked)>,
    /// The answer that found its list full, and how often.
    again: Option<(Moment, RequestId, String, u8)>,
    work: Option<(RequestId, Work)>,
    /// The begin of the present second, and its answers.
    second: (Moment, u32),
    started: Moment,
}

impl Visible {
    pub(super) fn new(identity: Option<Arc<Identity>>, now: Moment) -> Self {
        Self {
            identity,
            phase: Phase::Unseen,
            register_at: Moment::NEVER,
            is_registering: false,
            is_outdated: false,
            retry: RETRY[0],
            asked: VecDeque::new(),
            again: None,
            work: None,
            second: (now, 0),
            started: now,
        }
    }

    /// Begins to register.
    pub(super) fn join(&mut self, now: Moment) {
        if self.phase == Phase::Unseen && self.identity.is_some() {
            (self.phase, self.register_at) = (Phase::Registering, now);
        }
    }

    /// Returns the channel to listen on, once the client may.
    pub(super) fn channel(&self) -> Option<Channel> {
        let identity = self.identity.as_ref().filter(|_| self.phase == Phase::Listening)?;
        Some(identity.audience.channel().clone())
    }

    /// Takes what was heard on the channel of questions.
    pub(super) fn heard(&mut self, now: Moment, heard: Heard) {
        match heard {
            // The server may be another one than before, without the card.
            Heard::Listening(_) => (self.register_at, self.is_outdated) = (now, self.is_registering),
            Heard::Message(_, message) => {
                if let Some(asked) = Asked::read(&message).filter(|_| self.asked.len() < WAITING_MAX) {
                    let at = now + self.spread(asked.request, asked.answerers);
                    self.asked.push_back((at, asked));
                }
            }
        }
    }

    /// Returns this client's part of the time over which so many clients spread their answers.
    fn spread(&self, request: RequestId, answerers: u32) -> Duration {
        let spread = SPREAD.saturating_mul(answerers).min(SPREAD_MAX);
        let client = self.identity.as_ref().map_or(0, |identity| identity.card.client.seed());
        let place = (client ^ request.seed()) >> 32;
        spread.mul_f64(place as f64 / f64::from(u32::MAX))
    }

    /// Returns the time of the next turn.
    pub(super) fn next(&self) -> Moment {
        // While there is work the driver comes back by itself. A time in the past would leave its other tasks no turn.
        let asked =
            self.asked.iter().filter(|_| self.work.is_none()).map(|(at, _)| self.allowed_at(*at)).min();
        let again = self.again.as_ref().map(|(at, ..)| *at);
        let register = if self.is_registering { Moment::NEVER } else { self.register_at };
        [asked, again].into_iter().flatten().fold(register, Moment::min)
    }

    /// Returns the first moment from this one on at which another answer may be given.
    fn allowed_at(&self, at: Moment) -> Moment {
        let (begin, answers) = self.second;
        if answers < A_SECOND { at } else { at.max(begin + Duration::from_secs(1)) }
    }

    /// Returns true if no turn has anything to do, as of a client that is not seen.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_busy() && self.next() == Moment::NEVER
    }

    /// Returns true if there is work for another turn at once.
    pub(super) const fn is_busy(&self) -> bool {
        self.work.is_some()
    }

    /// Does what is due, at most one page of work. Returns the calls to send.
    pub(super) fn turn(&mut self, now: Moment, shared: &Shared) -> Vec<(Purpose, Call)> {
        let Some(identity) = self.identity.clone() else { return Vec::new() };
        let mut calls = Vec::new();
        if self.register_at <= now && !self.is_registering {
            if !shared.begin_registration() {
                self.end();
                return Vec::new();
            }
            self.is_registering = true;
            let register = operate::register(&identity.audience, &identity.card, REGISTERED);
            calls.push((Purpose::Register, register));
        }
        if let Some((_, request, text, pushes)) = self.again.take_if(|(at, ..)| *at <= now) {
            calls.push(answer(request, text, pushes));
        }
        self.begin(now);
        if let Some((request, work)) = self.work.take() {
            match work.turn(shared, (&identity.card, now.since(self.started))) {
                Ok(text) => calls.push(answer(request, text, 0)),
                Err(work) => self.work = Some((request, work)),
            }
        }
        calls
    }

    /// Begins the work for a question that is due.
    fn begin(&mut self, now: Moment) {
        if now.since(self.second.0) >= Duration::from_secs(1) {
            self.second = (now, 0);
        }
        if self.work.is_some() || self.second.1 >= A_SECOND {
            return;
        }
        let Some(due) = self.asked.iter().position(|(at, _)| *at <= now) else { return };
        let Some((_, asked)) = self.asked.remove(due) else { return };
        self.second.1 += 1;
        let client = self.identity.as_ref().map(|identity| identity.card.client);
        self.work = client.map(|client| (asked.request, Work::new(client, asked.question)));
    }

    /// Takes the outcome of a call.
    pub(super) fn ended(&mut self, now: Moment, purpose: Purpose, outcome: Result<Reply, StoreError>) {
        match purpose {
            Purpose::Register => self.registered(now, outcome),
            Purpose::Answer { request, text, pushes } if outcome == Ok(Reply::Int(0)) && pushes < PUSHES => {
                // The pauses of many clients differ as those before their first answers do.
                self.again = Some((now + FULL + self.spread(request, 256), request, text, pushes + 1));
            }
            Purpose::Answer { .. } => {}
        }
    }

    fn registered(&mut self, now: Moment, outcome: Result<Reply, StoreError>) {
        self.is_registering = false;
        match outcome.map(|reply| operate::read_registered(&reply)) {
            Ok(Some(true)) => {
                let again = if std::mem::take(&mut self.is_outdated) { now } else { now + REGISTER_EVERY };
                (self.phase, self.register_at) = (Phase::Listening, again);
                self.retry = RETRY[0];
            }
            Err(error) if error.kind != StoreErrorKind::PermissionDenied => {
                self.register_at = now + self.retry;
                self.retry = (self.retry * 2).min(RETRY[1]);
            }
            // The locks work without it. The doctor reports missing rights.
            Ok(_) | Err(_) => self.end(),
        }
    }

    /// Registers no more.
    fn end(&mut self) {
        (self.phase, self.register_at) = (Phase::Off, Moment::NEVER);
    }
}

fn answer(request: RequestId, text: String, pushes: u8) -> (Purpose, Call) {
    let call = operate::answer(request, &text);
    (Purpose::Answer { request, text, pushes }, call)
}

#[cfg(test)]
mod tests;
