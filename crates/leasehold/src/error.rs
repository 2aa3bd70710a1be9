//! What can go wrong, one small error per operation, and [`Error`] for users of `?`.
//!
//! Invariant: every error says which is true: the lock was not acquired; it is unknown and free again by then; or it
//! was held and is lost, because.
//! Called by: everything that users call.
//!
//! Every error of an operation says what it is about (`subject`: a primitive and its name) and what went wrong (`kind`),
//! and its message is one line with its cause in it:
//!
//! ```text
//! lock "order:42" not acquired: the server cannot be reached (connection refused)
//! lock "order:42" may or may not be acquired: no answer within the timeout; any effect of this attempt is gone within 33.3s
//! the body did not run: lock "order:42" was held by another owner for all of 5s
//! lock "order:42" was lost while the body ran: it was deleted on the server; the body has no result
//! ```
//!
//! So `{}` is enough for a log, and [`source`](std::error::Error::source) is `None`: the cause would be told twice. The
//! cause itself is in `kind`. `{:?}` is the message too, for a `main` that returns an error; `{:#?}` has the fields.
//!
//! # Which status a service answers
//!
//! A lock that another owner holds is no error where not getting it is an answer: `try_lock` is `None`. Where it is one,
//! and for all others, each error has the same four questions:
//!
//! | question | true of | HTTP |
//! |---|---|---|
//! | `is_busy` | [`RunError::Busy`], [`AcquireErrorKind::AlreadyHeld`]: the lock is held | 409 Conflict |
//! | `is_unavailable` | the server failed, refused or did not answer; the client is closed | 503 Service Unavailable |
//! | `is_lost` | a hold that the caller had, or whose token it has, is gone; what it protected may have been done in part | 503, or 409 for a stale token |
//! | none of the three | a mistake: a name, a lease, a key of another kind, two holds that wait for each other | 500 |
//!
//! `is_retryable` goes across them: the same call may succeed a little later and does nothing twice, so a `Retry-After`
//! makes sense.
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
//! # Matching
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
//!

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

pub use crate::connect::UrlError;
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

/// Whether a failure is the server's state and not the name's.
const fn unavailable(source: &StoreError) -> bool {
    !matches!(source.kind, StoreErrorKind::WrongType)
}

/// Why a client could not be made. Nothing is left behind.
#[non_exhaustive]
pub enum ConnectError {
    /// The URL is not one that can be connected to.
    Url(UrlError),
    /// A setting is shorter than a millisecond.
    #[non_exhaustive]
    TooShort {
        /// Which one.
        setting: &'static str,
        /// What it was.
        given: Duration,
    },
    /// The watchdog, or a default of some primitive, is not a lease.
    Lease(LeaseError),
    /// With the key prefix no name is one.
    KeyPrefix(NameError),
    /// The client's name is not 1 to 128 bytes of printable ASCII without spaces.
    ClientName,
    /// The server did not let the client in.
    #[non_exhaustive]
    Store {
        /// The URL, with its password masked.
        server: String,
        /// What it said.
        source: StoreError,
    },
    /// The operating system gave no thread or no timer for the client's driver.
    Thread(io::Error),
}

impl ConnectError {
    /// Never: a connection is shared by all.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        false
    }

    /// Whether the server, or the operating system, could not do its part.
    #[must_use]
    pub const fn is_unavailable(&self) -> bool {
        matches!(self, Self::Store { .. } | Self::Thread(_))
    }

    /// Whether the same call may succeed a little later, without any change to the program, its settings or the server.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Store { source, .. } => source.kind.is_transient(),
            _ => false,
        }
    }

    /// Never: nothing is held.
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

/// No client was installed before one was needed.
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

/// A client was installed before, and stays.
#[derive(Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "its name says all")]
pub struct AlreadyInstalled;

impl fmt::Display for AlreadyInstalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a client is installed already, and stays")
    }
}

message_in_debug!(AlreadyInstalled {});

/// The same four questions of an error that is none of them.
macro_rules! none_of_them {
    ($($error:ty),*) => {
        $(impl $error {
            /// Never: nothing was asked of a server.
            #[must_use]
            pub const fn is_busy(&self) -> bool {
                false
            }

            /// Never: nothing was asked of a server.
            #[must_use]
            pub const fn is_unavailable(&self) -> bool {
                false
            }

            /// Never: it stays as it is.
            #[must_use]
            pub const fn is_retryable(&self) -> bool {
                false
            }

            /// Never: nothing is held.
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

    /// Never: as [`ConnectError::is_busy`].
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        false
    }

    /// As [`ConnectError::is_unavailable`].
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        self.connect().is_some_and(ConnectError::is_unavailable)
    }

    /// As [`ConnectError::is_retryable`].
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.connect().is_some_and(ConnectError::is_retryable)
    }

    /// Never: nothing is held.
    #[must_use]
    pub const fn is_lost(&self) -> bool {
        false
    }
}

/// Declares [`Error`]: each error with its variant, and with what the four questions go to.
macro_rules! any_error {
    ($($(#[doc = $doc:literal])* $(#[cfg($cfg:meta)])? $variant:ident($error:ty),)*) => {
        /// Any error of this crate.
        ///
        /// Its message is that of the error in it, in `{:?}` too, so `main` may return it:
        /// `Error: lock "order:42" not acquired: the server cannot be reached (connection refused)`.
        #[non_exhaustive]
        pub enum Error {
            $($(#[doc = $doc])* $(#[cfg($cfg)])? $variant($error),)*
        }

        impl Error {
            /// Whether a lock is held, and was not waited for any longer.
            #[must_use]
            pub fn is_busy(&self) -> bool {
                match self {
                    $($(#[cfg($cfg)])? Self::$variant(error) => error.is_busy(),)*
                }
            }

            /// Whether the server, or this client, could not do its part.
            #[must_use]
            pub fn is_unavailable(&self) -> bool {
                match self {
                    $($(#[cfg($cfg)])? Self::$variant(error) => error.is_unavailable(),)*
                }
            }

            /// Whether the same call may succeed a little later, and does nothing twice.
            #[must_use]
            pub fn is_retryable(&self) -> bool {
                match self {
                    $($(#[cfg($cfg)])? Self::$variant(error) => error.is_retryable(),)*
                }
            }

            /// Whether a hold that the caller had is gone.
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
    /// Of connecting.
    Connect(ConnectError),
    /// Of reading a configuration.
    #[cfg(feature = "config")]
    Config(crate::config::ConfigError),
    /// Of connecting with one.
    #[cfg(feature = "config")]
    ConfigConnect(crate::config::ConfigConnectError),
    /// Of acquiring.
    Acquire(AcquireError),
    /// Of acquiring over several servers.
    Quorum(QuorumError),
    /// Of releasing.
    Release(ReleaseError),
    /// Of renewing on demand.
    Ensure(EnsureError),
    /// Of looking for the installed client.
    NotInstalled(NotInstalled),
    /// Of installing one.
    AlreadyInstalled(AlreadyInstalled),
    /// Of running a body under a lock.
    Run(RunError),
    /// Of looking at a lock.
    Inspect(InspectError),
    /// Of changing a semaphore or latch.
    Operation(OperationError),
    /// Of writing with a fencing token.
    FencedWrite(FencedWriteError),
    /// Of waiting for a latch.
    Wait(WaitError),
}
