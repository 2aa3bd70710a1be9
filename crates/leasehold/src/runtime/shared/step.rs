//! Steps of the engine under the lock, and what they leave to do outside of it.
//!
//! Invariant: a step runs no foreign code. What would run such code is an effect, for the time after the lock.

use leasehold_proto::engine::{Action, CallId, Event};
use leasehold_proto::{Applied, Call, Moment};

use super::{Command, Effects, State, gone};
use crate::observe::facts_buffer;

/// The most actions for which the buffer keeps its memory, so that one busy step does not keep memory for good.
const BUFFERED: usize = 64;

impl State {
    pub(super) fn step(&mut self, now: Moment, event: Event, effects: &mut Effects) {
        #[cfg(test)]
        {
            self.steps += 1;
        }
        self.step_engine(now, event, effects);
        if self.ended {
            self.refuse_commands(now, effects);
        }
    }

    pub(super) fn step_engine(&mut self, now: Moment, event: Event, effects: &mut Effects) {
        self.join_for(&event);
        let ended = match &event {
            Event::Release { hold, .. } | Event::Detach(hold) => Some(*hold),
            _ => None,
        };
        let mut actions = std::mem::take(&mut self.actions);
        if let Event::Replied(call, outcome) = &event {
            let is_answered = outcome.as_ref().err().is_none_or(|error| !error.kind.is_transient());
            self.pulse.ended(now, *call, is_answered);
        }
        for ticket in self.engine.offers_in_question(now, &event) {
            self.recall(ticket, effects);
        }
        self.engine.step_into(now, event, &mut actions);
        if self.engine.has_facts() {
            if effects.facts.capacity() == 0 {
                effects.facts = facts_buffer();
            }
            let told = effects.facts.len();
            self.engine.take_facts(&mut effects.facts);
            self.ask_holders(&effects.facts[told..]);
        }
        for action in actions.drain(..) {
            if let Action::Run(call, ..) = &action {
                self.pulse.sent(now, *call);
            }
            self.join_with(&action);
            self.apply(action, effects);
        }
        actions.shrink_to(BUFFERED);
        self.actions = actions;
        // The listener of an offer stays until its guard ends the hold.
        effects.idle.extend(ended.and_then(|hold| self.take_listener(hold)));
        // A store without an entrance takes a call with its future, and does not tell whether it has sent it.
        while let Some(id) = self.calls_to_withdraw.pop_if(|_| !self.has_entrance) {
            self.step_engine(now, Event::Kept(id), effects);
        }
    }

    /// Answers the commands and calls after the driver has ended. No call is sent, and no channel is subscribed.
    fn refuse_commands(&mut self, now: Moment, effects: &mut Effects) {
        loop {
            if let Some((id, call, _)) = self.calls_to_submit.pop() {
                self.refuse(now, id, &call, effects);
            } else if let Some(command) = self.commands.pop() {
                if let Command::Act(Action::Run(id, call, _)) = &command {
                    self.refuse(now, *id, call, effects);
                }
                effects.refused.push(command);
            } else if let Some(id) = self.calls_to_withdraw.pop() {
                self.step_engine(now, Event::Kept(id), effects);
            } else {
                return;
            }
        }
    }

    fn refuse(&mut self, now: Moment, id: CallId, call: &Call, effects: &mut Effects) {
        self.step_engine(now, Event::Replied(id, Err(gone(call, Applied::No))), effects);
    }

    pub(super) fn apply(&mut self, action: Action, effects: &mut Effects) {
        match action {
            Action::Wake(id) => {
                if effects.polled.as_ref().is_some_and(|(polled, _)| *polled == id) {
                    effects.poll_again = true;
                } else {
                    self.wake(id, effects);
                }
            }
            Action::Trusted(hold, until) => self.trust(hold, until, effects),
            Action::Complete(_, outcome) => effects.outcome = Some(outcome),
            Action::Run(id, call, limit) if self.has_entrance => self.calls_to_submit.push((id, call, limit)),
            Action::Withdraw(id) => self.calls_to_withdraw.push(id),
            command => self.commands.push(Command::Act(command)),
        }
    }
}
