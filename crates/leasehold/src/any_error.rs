//! One error type for `?`: it holds any error of this crate.
//!
//! Invariant: this file imports all modules with errors, so none of them imports another.

use std::fmt;

#[cfg(feature = "config")]
use crate::error::answers::{answers, none_of_them};
use crate::error::message::debug;
use crate::error::{
    AcquireError, AlreadyInstalled, ConnectError, EnsureError, FencedWriteError, InspectError, NotInstalled,
    OperationError, PermitsError, QuorumError, ReleaseError, RunError, TicketError, TransferError,
    UpgradeError, WaitError,
};

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
}

#[cfg(feature = "config")]
answers! { self: crate::config::ConfigConnectError =>
    /// Always returns false, as [`ConnectError::is_busy`] does.
    const is_busy = false;
    /// Returns true if the server or the operating system failed. See [`ConnectError::is_unavailable`].
    fn is_unavailable = self.connect().is_some_and(ConnectError::is_unavailable);
    /// Returns true if the same call may succeed a little later. See [`ConnectError::is_retryable`].
    fn is_retryable = self.connect().is_some_and(ConnectError::is_retryable);
    /// Always returns false, since nothing is held.
    const is_lost = false;
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

            /// Returns true if the same call may succeed a little later, and a repeat has no second effect.
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
    /// An error of upgrading a read hold.
    Upgrade(UpgradeError),
    /// An error of acquiring over several servers.
    Quorum(QuorumError),
    /// An error of releasing.
    Release(ReleaseError),
    /// An error of renewing on demand.
    Ensure(EnsureError),
    /// An error of passing a hold on.
    Ticket(TicketError),
    /// An error of using the installed client.
    NotInstalled(NotInstalled),
    /// An error of installing a client.
    AlreadyInstalled(AlreadyInstalled),
    /// An error of running a body under a lock.
    Run(RunError),
    /// An error of passing leadership on.
    Transfer(TransferError),
    /// An error of inspecting a lock.
    Inspect(InspectError),
    /// An error of changing a semaphore or latch.
    Operation(OperationError),
    /// An error of changing permits by their ids.
    Permits(PermitsError),
    /// An error of writing with a fencing token.
    FencedWrite(FencedWriteError),
    /// An error of waiting for a latch.
    Wait(WaitError),
}
