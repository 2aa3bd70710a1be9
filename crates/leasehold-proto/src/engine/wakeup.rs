//! Subscriptions: one per channel, for as long as somebody waits there.
//!
//! Invariant: a wake-up is a hint. It makes the head of a line ask; nothing is concluded from it.
//! Called by: the engine's step, for messages; the queue, when a waiter goes to sleep or a line is empty.

use std::collections::BTreeSet;

use super::{Action, Engine, Subject};
use crate::moment::Moment;
use crate::name::Channel;

/// Who listens on a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Listen {
    subjects: BTreeSet<Subject>,
}

impl Engine {
    /// Subscribes for a line, unless it is subscribed already.
    pub(super) fn listen(&mut self, subject: &Subject) {
        if !self.lines.contains_key(subject) {
            return;
        }
        let Some(channel) = subject.recipe.channel(&subject.name) else {
            return;
        };
        let listen = self.channels.entry(channel.clone()).or_default();
        if listen.subjects.insert(subject.clone()) && listen.subjects.len() == 1 {
            self.actions.push(Action::Listen(channel));
        }
    }

    /// Ends a line's subscription.
    pub(super) fn unlisten(&mut self, subject: &Subject) {
        let Some(channel) = subject.recipe.channel(&subject.name) else {
            return;
        };
        let Some(listen) = self.channels.get_mut(&channel) else {
            return;
        };
        listen.subjects.remove(subject);
        if listen.subjects.is_empty() {
            self.channels.remove(&channel);
            self.actions.push(Action::Unlisten(channel));
        }
    }

    /// A subscription stands, for the first time or again: what was sent before is lost, so the heads ask.
    pub(super) fn listening(&mut self, now: Moment, channel: &Channel) {
        for subject in self.subjects_on(channel) {
            self.ask_unless_held_here(now, &subject);
        }
    }

    /// Somebody has released.
    pub(super) fn message(&mut self, now: Moment, channel: &Channel) {
        for subject in self.subjects_on(channel) {
            self.ask_unless_held_here(now, &subject);
        }
    }

    fn subjects_on(&self, channel: &Channel) -> Vec<Subject> {
        self.channels.get(channel).map(|listen| listen.subjects.iter().cloned().collect()).unwrap_or_default()
    }
}
