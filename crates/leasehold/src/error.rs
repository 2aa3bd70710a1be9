//! Errors: one small type per operation, and [`Error`] for `?`.
//!
//! An error of an acquire or a hold says which is true: the lock was not acquired; the outcome is unknown, and the
//! lock is free again by a stated time; or the lock was held and is lost, with the reason. Every error of an operation
//! has a `subject` (a primitive and its name) and a `kind` (what went wrong). Its message is one line with the cause
//! in it:
//!
//! ```text
//! lock "order:42" not acquired: the server cannot be reached (connection refused)
//! lock "order:42" may or may not be acquired: no answer within the timeout; any effect of this attempt is gone within 33.3s
//! the body did not run: lock "order:42" was held by another owner for all of 5s
//! lock "order:42" was lost while the body ran: it was deleted on the server; the body has no result
//! ```
//!
//! `{}` is enough for a log. [`source`](std::error::Error::source) is `None`, because the message has the cause in it.
//! `kind` has the cause as a value. `{:?}` prints the message too, for a `main` that returns an error. `{:#?}` prints
//! the fields.
//!
//! # Choose an HTTP status
//!
//! A lock that another owner holds is not an error of `try_lock`, which returns `None`. Every error has the same four
//! methods:
//!
//! | method | true if | HTTP |
//! |---|---|---|
//! | `is_busy` | the lock is held: [`RunError::Busy`], [`AcquireErrorKind::AlreadyHeld`] | 409 Conflict |
//! | `is_unavailable` | the server failed, refused or was silent, or the client is closed | 503 Service Unavailable |
//! | `is_lost` | the hold of the caller or of its token is gone, and its work may be half done | 503, or 409 if stale |
//! | none of these | a mistake: a name, a lease, a key of another kind, a deadlock of two holds | 500 |
//!
//! `is_retryable` is independent of the other three. It is true if the same call may succeed a little later and does
//! nothing twice, so a `Retry-After` makes sense.
//!
//! ```
//! # use leasehold::RunError;
//! fn status(error: &RunError) -> u16 {
//!     if error.is_busy() {
//!         409
//!     } else if error.is_unavailable() || error.is_lost() {
//!         503
//!     } else {
//!         500
//!     }
//! }
//! ```
//!
//! # Match on the kind
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), leasehold::Error> {
//! # let client = leasehold::Client::connect("memory://").await?;
//! use leasehold::AcquireErrorKind;
//!
//! match client.lock("order:42").lock().await {
//!     Ok(guard) => drop(guard),
//!     Err(error) => match &error.kind {
//!         AcquireErrorKind::Unknown { free_within, .. } => println!("ask again {free_within}"),
//!         AcquireErrorKind::Name(_) => unreachable!("the name is a constant"),
//!         _ => return Err(error.into()),
//!     },
//! }
//! # Ok(())
//! # }
//! ```

mod acquire;
mod hold;
mod message;
mod operation;
mod run;
mod subject;

use std::fmt;
use std::io;
use std::time::Duration;

use leasehold_proto::{LeaseError, NameError, Rounded, StoreError, StoreErrorKind};

pub use crate::client::connect::UrlError;
pub use acquire::{AcquireError, AcquireErrorKind, NodeAnswer, QuorumError};
pub use hold::{EnsureError, EnsureErrorKind, ReleaseError, ReleaseErrorKind};
use message::{debug, message_in_debug};
pub use operation::{
    FencedWriteError, InspectError, InspectErrorKind, OperationError, OperationErrorKind, WaitError,
    WaitErrorKind,
};
pub use run::RunError;
pub(crate) use subject::{About, BadName, Cause};
pub use subject::{Subject, SubjectKind};

/// The end of a message about a client that another process made.
const FORKED: &str =
    "the client belongs to the process that this one was forked from; connect a new one here";

/// Returns true if the failure concerns the server and not the name.
const fn unavailable(source: &StoreError) -> bool {
    !matches!(source.kind, StoreErrorKind::WrongType)
}

/// The reason why a client could not connect. Nothing is left behind.
#[non_exhaustive]
pub enum ConnectError {
    /// The URL cannot be used.
    Url(UrlError),
    /// A setting is shorter than 1 ms.
    #[non_exhaustive]
    TooShort {
        /// The name of the setting.
        setting: &'static str,
        /// The value of the setting.
        given: Duration,
    },
    /// The watchdog's lease, or the default lease of a primitive, is outside its bounds.
    Lease(LeaseError),
    /// The key prefix makes every name invalid.
    KeyPrefix(NameError),
    /// The client's name is not 1 to 128 bytes of printable ASCII without spaces.
    ClientName,
    /// The client could not connect to the server, or the server refused it.
    #[non_exhaustive]
    Store {
        /// The URL, with its password masked.
        server: String,
        /// The error of the server or of the connection.
        source: StoreError,
    },
    /// The operating system provided no thread or no timer for the client's driver.
    Thread(io::Error),
}

impl ConnectError {
    /// Always returns false, since connecting acquires nothing.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        false
    }

    /// Returns true if the server or the operating system failed.
    #[must_use]
    pub const fn is_unavailable(&self) -> bool {
        matches!(self, Self::Store { .. } | Self::Thread(_))
    }

    /// Returns true if the same call may succeed a little later, without any change to the program, its settings or
    /// the server.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Store { source, .. } => source.kind.is_transient(),
            _ => false,
        }
    }

    /// Always returns false, since nothing is held.
    #[must_use]
    pub const fn is_lost(&self) -> bool {
        false
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(error) => write!(f, "the server's URL cannot be used: {error}"),
            Self::TooShort { setting, given } => {
                write!(f, "the {setting} of {} is too short, at least 1ms is needed", Rounded::down(*given))
            }
            Self::Lease(error) => write!(f, "a default lease cannot be used: {error}"),
            Self::KeyPrefix(error) => write!(f, "the key prefix cannot be used: {error}"),
            Self::ClientName => {
                f.write_str("the client's name is not 1 to 128 printable ASCII characters without spaces")
            }
            Self::Store { server, source } => write!(f, "no connection to {server}: {}", source.reason()),
            Self::Thread(error) => write!(f, "the client's thread could not be started: {error}"),
        }
    }
}

impl fmt::Debug for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug(f, self, |f| match self {
            Self::Url(error) => f.debug_tuple("Url").field(error).finish(),
            Self::TooShort { setting, given } => {
                f.debug_struct("TooShort").field("setting", setting).field("given", given).finish()
            }
            Self::Lease(error) => f.debug_tuple("Lease").field(error).finish(),
            Self::KeyPrefix(error) => f.debug_tuple("KeyPrefix").field(error).finish(),
            Self::ClientName => f.write_str("ClientName"),
            Self::Store { server, source } => {
                f.debug_struct("Store").field("server", server).field("source", source).finish()
            }
            Self::Thread(error) => f.debug_tuple("Thread").field(error).finish(),
        })
    }
}

impl std::error::Error for ConnectError {}

impl From<LeaseError> for ConnectError {
    fn from(error: LeaseError) -> Self {
        Self::Lease(error)
    }
}

/// The error of a call that needs the installed client when none is installed.
#[derive(Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "its name says all")]
pub struct NotInstalled;

impl fmt::Display for NotInstalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "no client is installed; give one to `leasehold::install` at the start of the program, or name one",
        )
    }
}

message_in_debug!(NotInstalled {});

/// The error of a second [`install`](crate::install). The first client stays.
#[derive(Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "its name says all")]
pub struct AlreadyInstalled;

impl fmt::Display for AlreadyInstalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a client is installed already, and stays")
    }
}

message_in_debug!(AlreadyInstalled {});

/// Implements the four methods of an error for which all are false.
macro_rules! none_of_them {
    ($($error:ty),*) => {
        $(impl $error {
            /// Always returns false, since no server takes part.
            #[must_use]
            pub const fn is_busy(&self) -> bool {
                false
            }

            /// Always returns false, since no server takes part.
            #[must_use]
            pub const fn is_unavailable(&self) -> bool {
                false
            }

            /// Always returns false, since the same call fails again.
            #[must_use]
            pub const fn is_retryable(&self) -> bool {
                false
            }

            /// Always returns false, since nothing is held.
            #[must_use]
            pub const fn is_lost(&self) -> bool {
                false
            }
        })*
    };
}

none_of_them!(NotInstalled, AlreadyInstalled);
#[cfg(feature = "config")]
none_of_them!(crate::config::ConfigError);

#[cfg(feature = "config")]
impl crate::config::ConfigConnectError {
    const fn connect(&self) -> Option<&ConnectError> {
        match self {
            Self::Connect(error) => Some(error),
            Self::IsQuorum | Self::IsNotQuorum => None,
        }
    }

    /// Always returns false, as [`ConnectError::is_busy`] does.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        false
    }

    /// Returns true if the server or the operating system failed. See [`ConnectError::is_unavailable`].
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        self.connect().is_some_and(ConnectError::is_unavailable)
    }

    /// Returns true if the same call may succeed a little later. See [`ConnectError::is_retryable`].
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.connect().is_some_and(ConnectError::is_retryable)
    }

    /// Always returns false, since nothing is held.
    #[must_use]
    pub const fn is_lost(&self) -> bool {
        false
    }
}

/// Declares [`Error`], with a variant for each error, and the four methods that delegate to it.
macro_rules! any_error {
    ($($(#[doc = $doc:literal])* $(#[cfg($cfg:meta)])? $variant:ident($error:ty),)*) => {
        /// Any error of this crate.
        ///
        /// Its message is the message of the error in it, in `{:?}` too, so `main` may return it: `Error: lock
        /// "order:42" not acquired: the server cannot be reached (connection refused)`.
        #[non_exhaustive]
        pub enum Error {
            $($(#[doc = $doc])* $(#[cfg($cfg)])? $variant($error),)*
        }

        impl Error {
            /// Returns true if another hold kept the lock.
            #[must_use]
            pub fn is_busy(&self) -> bool {
                match self {
                    $($(#[cfg($cfg)])? Self::$variant(error) => error.is_busy(),)*
                }
            }

            /// Returns true if the server, or this client, could not do its part.
            #[must_use]
            pub fn is_unavailable(&self) -> bool {
                match self {
                    $($(#[cfg($cfg)])? Self::$variant(error) => error.is_unavailable(),)*
                }
            }

            /// Returns true if the same call may succeed a little later and does nothing twice.
            #[must_use]
            pub fn is_retryable(&self) -> bool {
                match self {
                    $($(#[cfg($cfg)])? Self::$variant(error) => error.is_retryable(),)*
                }
            }

            /// Returns true if a hold of the caller is gone.
            #[must_use]
            pub fn is_lost(&self) -> bool {
                match self {
                    $($(#[cfg($cfg)])? Self::$variant(error) => error.is_lost(),)*
                }
            }
        }

        impl fmt::Display for Error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $($(#[cfg($cfg)])? Self::$variant(error) => error.fmt(f),)*
                }
            }
        }

        impl fmt::Debug for Error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                debug(f, self, |f| match self {
                    $($(#[cfg($cfg)])? Self::$variant(error) => {
                        f.debug_tuple(stringify!($variant)).field(error).finish()
                    })*
                })
            }
        }

        impl std::error::Error for Error {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                match self {
                    $($(#[cfg($cfg)])? Self::$variant(error) => error.source(),)*
                }
            }
        }

        $($(#[cfg($cfg)])? impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        })*
    };
}

any_error! {
    /// An error of connecting.
    Connect(ConnectError),
    /// An error of reading a configuration.
    #[cfg(feature = "config")]
    Config(crate::config::ConfigError),
    /// An error of connecting with a configuration.
    #[cfg(feature = "config")]
    ConfigConnect(crate::config::ConfigConnectError),
    /// An error of acquiring.
    Acquire(AcquireError),
    /// An error of acquiring over several servers.
    Quorum(QuorumError),
    /// An error of releasing.
    Release(ReleaseError),
    /// An error of renewing on demand.
    Ensure(EnsureError),
    /// An error of using the installed client.
    NotInstalled(NotInstalled),
    /// An error of installing a client.
    AlreadyInstalled(AlreadyInstalled),
    /// An error of running a body under a lock.
    Run(RunError),
    /// An error of inspecting a lock.
    Inspect(InspectError),
    /// An error of changing a semaphore or latch.
    Operation(OperationError),
    /// An error of writing with a fencing token.
    FencedWrite(FencedWriteError),
    /// An error of waiting for a latch.
    Wait(WaitError),
}
