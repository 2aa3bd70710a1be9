//! What a plain lock has besides its key: the ways of the libraries with which it is shared.
//!
//! A format is a value, so that two handles of one key with equal formats share one wait queue.

use std::fmt;

use crate::name::Name;

/// What a plain lock has besides its key.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Format {
    /// The list on which waiters of another library block, to which a release adds an element.
    pub list: Option<Name>,
    /// The channel on which waiters of another library listen for the key.
    pub channel: Option<Box<str>>,
    /// True if a key without an expiry fails an acquire, and false if it is waited for.
    pub fails_endless: bool,
    /// True if a key of another type counts as held.
    pub holds_others: bool,
    /// The counter of the fencing tokens.
    pub fence: Option<Name>,
    /// The value of each hold, if the caller has chosen it. Such a hold takes no mark.
    pub token: Option<Box<str>>,
}

impl Format {
    /// The format of a lock that is shared by its key alone.
    pub(crate) const PLAIN: Self = Self {
        list: None,
        channel: None,
        fails_endless: false,
        holds_others: false,
        fence: None,
        token: None,
    };

    /// Returns true if waiters of another library need a message or an element.
    pub(crate) const fn has_signal(&self) -> bool {
        self.list.is_some() || self.channel.is_some()
    }
}

/// A token gives its reader the right to release the lock, so it is not shown.
impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Format")
            .field("list", &self.list)
            .field("channel", &self.channel)
            .field("fails_endless", &self.fails_endless)
            .field("holds_others", &self.holds_others)
            .field("fence", &self.fence)
            .field("has_token", &self.token.is_some())
            .finish()
    }
}
