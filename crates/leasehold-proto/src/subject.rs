//! A subject: a name with the rules of its primitive.
//!
//! Invariant: subjects are equal when their names and the kinds of their recipes are.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::call::{Call, Wakeups};
use crate::confirm::Confirm;
use crate::lease::Lease;
use crate::moment::Moment;
use crate::name::{Channel, Name, Others};
use crate::outcome::{Applied, StoreError, StoreErrorKind, Verb};
use crate::owner::WireOwner;
use crate::recipe::format::Format;
use crate::recipe::rules::{CallArgs, CallContext, Holding, Recipe};

/// The longest life of a place in a queue on the server, as a multiple of the interval at which its waiter shows that
/// it is alive. It covers the times after which a silent waiter is gone: 5 s at an interval of 1.5 s in a fair queue, 3 s at
/// 1 s beside a read-write lock.
const PLACE_INTERVALS: u32 = 4;

/// A name with the rules by which it is locked.
#[derive(Clone)]
pub struct Subject {
    /// The name.
    pub name: Name,
    /// The names that are locked together with it, all or nothing.
    pub others: Others,
    /// The primitive's rules.
    pub recipe: &'static Recipe,
    /// The group of the name for observers, if its user has given one.
    pub group: Option<&'static Group>,
    /// What a plain lock has besides its key, or `None` for nothing.
    pub format: Option<Arc<Format>>,
}

/// A group of names, for observers. It lives for as long as the process.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Group(Box<str>);

impl Group {
    /// Creates a group.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the text of the group.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Subject {
    /// Creates the subject of one name with these rules.
    #[must_use]
    pub fn new(name: &Name, recipe: &'static Recipe) -> Self {
        Self { name: name.clone(), others: Others::default(), recipe, group: None, format: None }
    }

    /// Returns the channels on which a waiter of this wire owner listens.
    #[must_use]
    pub fn channels(&self, owner: WireOwner) -> Vec<Channel> {
        (self.recipe.channels)(&self.name, &self.others, owner)
    }

    /// Sets the replicas that must acknowledge what a call of this subject leaves on the server.
    #[must_use]
    pub fn confirmed(&self, mut call: Call, replicas: Option<Confirm>) -> Call {
        call.set_confirmation(replicas, self.recipe);
        call
    }

    /// Sets what a plain lock has besides its key.
    #[must_use]
    pub fn formatted(self, format: Format) -> Self {
        let format = (format != Format::PLAIN).then(|| format.into());
        Self { format, ..self }
    }

    /// Returns the time by which a hold is certainly gone if nothing arrives at the server after `now`.
    pub(crate) fn gone_by(&self, lease: Lease, now: Moment) -> Moment {
        match self.recipe.holding {
            Holding::Exclusive | Holding::Shared | Holding::ExpirablePermits => lease.gone_by(now),
            Holding::Permits => Moment::NEVER,
            Holding::Event => now,
        }
    }

    /// Returns the time by which all effects of an acquire are gone if nothing arrives at the server after `now`. A
    /// place in a queue there may outlive the lease.
    pub(crate) fn left_by(&self, lease: Lease, now: Moment, queued: bool) -> Moment {
        let place = self.recipe.waiters.seen_every().filter(|_| queued);
        self.gone_by(lease, now).max(now + place.unwrap_or_default() * PLACE_INTERVALS)
    }

    /// Returns the error of a reply that the call cannot have.
    pub(crate) fn malformed(&self, during: Verb) -> StoreError {
        StoreError::new(StoreErrorKind::Malformed, during, self.name.as_str().into(), Applied::Unknown)
    }

    /// Returns the error of a call that was not answered in the time that its caller had.
    pub(crate) fn timed_out(&self, during: Verb) -> StoreError {
        StoreError::new(StoreErrorKind::Timeout, during, self.name.as_str().into(), Applied::Unknown)
    }

    /// Returns the key of equality and order. One name with other rules is another subject.
    fn order(&self) -> (&Name, &'static str, &[Name], Option<&Format>) {
        (&self.name, self.recipe.kind, &self.others, self.format.as_deref())
    }
}

impl PartialEq for Subject {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Subject {}

impl PartialOrd for Subject {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Subject {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

impl std::hash::Hash for Subject {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.order().hash(state);
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.recipe.kind, self.name)
    }
}

impl Call {
    /// Names the waiter of the call: a message on any channel of this subject and wire owner wakes the waiter after the
    /// call is refused. The script does not see the waiter.
    #[must_use]
    pub fn woken_by(self, subject: &Subject, owner: WireOwner) -> Self {
        let Subject { name, others, recipe, .. } = subject;
        let (name, others) = (name.clone(), others.clone());
        self.with_wakeups(Wakeups { channels: recipe.channels, name, others, owner })
    }
}

impl<'a> CallArgs<'a> {
    /// Creates arguments for one unit, for a caller that waits and knows of no grant.
    #[must_use]
    pub fn new(subject: &'a Subject, owner: WireOwner, lease: Lease) -> Self {
        let Subject { name, others, format, .. } = subject;
        Self {
            format: format.as_deref().unwrap_or(&Format::PLAIN),
            name,
            others,
            owner,
            lease,
            count: 1,
            units: 1,
            tokens: 1,
            context: CallContext::default(),
            companion: None,
            giver: None,
            uptime: Duration::ZERO,
        }
    }
}
