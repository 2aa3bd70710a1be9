//! The errors of the installed client.

use std::fmt;

use super::answers::none_of_them;
use super::message::message_in_debug;

/// The error of a call that needs the installed client when none is installed.
#[derive(Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "its name says all")]
pub struct NotInstalled;

impl fmt::Display for NotInstalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "no client is installed; call `leasehold::install` at the start of the program, or write `client = ..`",
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
        f.write_str("a client is already installed; it stays installed")
    }
}

message_in_debug!(AlreadyInstalled {});

none_of_them!(NotInstalled, AlreadyInstalled);
