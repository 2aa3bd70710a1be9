//! Makes `{:?}` of an error print its message.
//!
//! Invariant: `{:?}` prints the message of `{}` and any causes that the message lacks, so a program whose `main`
//! returns an error prints what went wrong. `{:#?}` prints the fields.

use std::error::Error;
use std::fmt;

use leasehold_proto::{StoreError, StoreErrorKind};

/// The end of a message about a client that another process made.
pub(super) const FORKED: &str =
    "the client belongs to the parent process; connect a new client after the fork";

/// Returns true if the failure concerns the server and not the name.
pub(super) const fn unavailable(source: &StoreError) -> bool {
    !matches!(source.kind, StoreErrorKind::WrongType)
}

/// Writes the message and its causes, or the fields for `{:#?}`.
pub(crate) fn debug<E: Error>(
    f: &mut fmt::Formatter<'_>,
    error: &E,
    fields: impl FnOnce(&mut fmt::Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    if f.alternate() {
        return fields(f);
    }
    write!(f, "{error}")?;
    let mut cause = error.source();
    while let Some(error) = cause {
        write!(f, ": {error}")?;
        cause = error.source();
    }
    Ok(())
}

/// Implements `Debug` and `Error` for an error of these fields, whose message has its cause in it.
macro_rules! message_in_debug {
    ($error:ident { $($field:ident),* }) => {
        impl ::std::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                $crate::error::message::debug(f, self, |f| {
                    f.debug_struct(stringify!($error))$(.field(stringify!($field), &self.$field))*.finish()
                })
            }
        }

        impl ::std::error::Error for $error {}
    };
}

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

pub(crate) use {message_in_debug, none_of_them};
