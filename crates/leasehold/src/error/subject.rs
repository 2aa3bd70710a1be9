//! The subject of an error: a lock, semaphore, latch or key.
//!
//! Invariant: the name is the caller's, without the client's key prefix, and short enough for a log.

use std::fmt;
use std::sync::Arc;

use leasehold_proto::NameError;

/// The most characters that an error keeps of an unusable name. Such a name can be as long as a request body, and an
/// error goes to a log.
const SHOWN_MAX: usize = 80;

/// The lock, semaphore, latch or key of an error, such as `lock "order:42"` in messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Subject {
    /// The primitive.
    pub kind: SubjectKind,
    /// The name as the caller wrote it, without the client's key prefix. Several locks that are acquired together have
    /// all names, separated by commas.
    pub name: Arc<str>,
}

/// The primitive of a [`Subject`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SubjectKind {
    /// [`Client::lock`](crate::Client::lock).
    Lock,
    /// [`Client::fair_lock`](crate::Client::fair_lock).
    FairLock,
    /// [`Client::fenced_lock`](crate::Client::fenced_lock).
    FencedLock,
    /// [`Client::spin_lock`](crate::Client::spin_lock).
    SpinLock,
    /// [`Client::plain_lock`](crate::Client::plain_lock).
    PlainLock,
    /// The read side of [`Client::rw_lock`](crate::Client::rw_lock).
    ReadLock,
    /// The write side of [`Client::rw_lock`](crate::Client::rw_lock).
    WriteLock,
    /// [`MultiLock`](crate::MultiLock).
    MultiLock,
    /// [`Redlock::lock`](crate::Redlock::lock).
    Redlock,
    /// [`Client::semaphore`](crate::Client::semaphore).
    Semaphore,
    /// [`Client::expirable_semaphore`](crate::Client::expirable_semaphore).
    ExpirableSemaphore,
    /// [`Client::count_down_latch`](crate::Client::count_down_latch).
    CountDownLatch,
    /// [`Client::election`](crate::Client::election).
    Election,
    /// A key that is written with a fencing token: [`FencedWrites`](crate::fenced_writes::FencedWrites).
    Key,
}

impl fmt::Display for SubjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lock => "lock",
            Self::FairLock => "fair lock",
            Self::FencedLock => "fenced lock",
            Self::SpinLock => "spin lock",
            Self::PlainLock => "plain lock",
            Self::ReadLock => "read lock",
            Self::WriteLock => "write lock",
            Self::MultiLock => "multi-lock",
            Self::Redlock => "redlock",
            Self::Semaphore => "semaphore",
            Self::ExpirableSemaphore => "expirable semaphore",
            Self::CountDownLatch => "count-down latch",
            Self::Election => "election",
            Self::Key => "key",
        })
    }
}

impl Subject {
    pub(crate) fn new(kind: SubjectKind, name: &str) -> Self {
        Self { kind, name: name.into() }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.kind, self.name)
    }
}

/// A name that cannot be used, with its text for the error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadName {
    pub(crate) error: NameError,
    pub(crate) text: Arc<str>,
}

impl BadName {
    pub(crate) fn new(error: NameError, text: &str) -> Self {
        let cut = text.char_indices().nth(SHOWN_MAX).map(|(at, _)| &text[..at]);
        let text = cut.map_or_else(|| text.into(), |cut| format!("{cut}...").into());
        Self { error, text }
    }
}

/// The error of a caller in a process that did not make the client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forked;

/// A reason before its subject is known.
pub(crate) trait Cause {
    /// The public error.
    type Error;

    /// Returns the error of an operation on this subject.
    fn of(self, subject: Subject) -> Self::Error;
}

/// Makes a kind the cause of an error, which equals its kind. A forked process is a cause of the error of every
/// operation, and a bad name is one of the error of an operation that gets a name.
macro_rules! of_a_subject {
    (named $kind:ident $($rest:tt)+) => {
        crate::error::subject::of_a_subject!($kind $($rest)+);

        impl From<crate::error::subject::BadName> for $kind {
            fn from(bad: crate::error::subject::BadName) -> Self {
                Self::Name(bad.error)
            }
        }
    };
    ($kind:ident => $error:ident $({ $($field:ident: $value:expr),* })?) => {
        impl $crate::error::subject::Cause for $kind {
            type Error = $error;

            fn of(self, subject: $crate::error::subject::Subject) -> $error {
                $error { kind: self, subject $($(, $field: $value)*)? }
            }
        }

        impl PartialEq<$kind> for $error {
            fn eq(&self, kind: &$kind) -> bool {
                self.kind == *kind
            }
        }

        impl From<$crate::error::subject::Forked> for $kind {
            fn from($crate::error::subject::Forked: $crate::error::subject::Forked) -> Self {
                Self::Forked
            }
        }
    };
}

pub(super) use of_a_subject;

/// A result whose error does not have its subject yet.
pub(crate) trait About<T, C: Cause> {
    fn about(self, subject: impl FnOnce() -> Subject) -> Result<T, C::Error>;
}

impl<T, C: Cause> About<T, C> for Result<T, C> {
    fn about(self, subject: impl FnOnce() -> Subject) -> Result<T, C::Error> {
        self.map_err(|cause| cause.of(subject()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_quotes_the_name_and_escapes_control_characters() {
        let subject = Subject::new(SubjectKind::FairLock, "a\"b\u{1b}[2J");
        assert_eq!(subject.to_string(), r#"fair lock "a\"b\u{1b}[2J""#);
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let bad = BadName::new(NameError::Empty, &"ä".repeat(100_000));
        assert_eq!(&*bad.text, format!("{}...", "ä".repeat(SHOWN_MAX)));
        assert_eq!(&*BadName::new(NameError::Empty, &"ä".repeat(80)).text, "ä".repeat(80));
    }
}
