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

/// Implements `Debug` and `Error` for an error of these fields or variants, whose message has its cause in it.
macro_rules! message_in_debug {
    ($error:ident { $($field:ident),* }) => {
        crate::error::message::message_in_debug! { @ $error, this, f =>
            f.debug_struct(stringify!($error))$(.field(stringify!($field), &this.$field))*.finish()
        }
    };
    (enum $error:ident { $($variant:ident $(($cause:ident))? $({ $($field:ident),* })?),+ $(,)? }) => {
        crate::error::message::message_in_debug! { @ $error, this, f =>
            match this {
                $(Self::$variant $(($cause))? $({ $($field),* })? => {
                    crate::error::message::message_in_debug!(@ f, $variant $(($cause))? $({ $($field),* })?)
                })+
            }
        }
    };
    (@ $f:ident, $variant:ident ($cause:ident)) => {
        $f.debug_tuple(stringify!($variant)).field($cause).finish()
    };
    (@ $f:ident, $variant:ident $({ $($field:ident),* })?) => {
        $f.debug_struct(stringify!($variant))$($(.field(stringify!($field), $field))*)?.finish()
    };
    (@ $error:ident, $this:ident, $f:ident => $fields:expr) => {
        impl ::std::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                let $this = self;
                crate::error::message::debug(f, $this, |$f| $fields)
            }
        }

        impl ::std::error::Error for $error {}
    };
}

/// Implements `From` for the causes that make a variant on their own.
macro_rules! from_cause {
    ($error:ident { $($variant:ident($cause:ty)),+ }) => {
        $(impl From<$cause> for $error {
            fn from(cause: $cause) -> Self {
                Self::$variant(cause)
            }
        })+
    };
}

pub(crate) use {from_cause, message_in_debug};
