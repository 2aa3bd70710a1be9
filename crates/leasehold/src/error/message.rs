//! Debug output that is the message.
//!
//! Invariant: `{:?}` prints the message of `{}` and any causes that the message lacks, so a program whose `main`
//! returns an error prints what went wrong. `{:#?}` prints the fields.

use std::error::Error;
use std::fmt;

/// Writes the message and its causes, or the fields for `{:#?}`.
pub(super) fn debug<E: Error>(
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

pub(super) use message_in_debug;
