//! A hold of any primitive that the workers use.

use std::time::Duration;

use leasehold::{FencedGuard, Guard, Permits, QuorumGuard};

/// A guard.
#[derive(Debug)]
pub(crate) enum Hold {
    Plain(Guard),
    Fenced(FencedGuard),
    Permit(Permits),
    Quorum(QuorumGuard),
}

/// Calls a method that all guards have.
macro_rules! each {
    ($hold:expr, $guard:ident => $call:expr) => {
        match $hold {
            Hold::Plain($guard) => $call,
            Hold::Fenced($guard) => $call,
            Hold::Permit($guard) => $call,
            Hold::Quorum($guard) => $call,
        }
    };
}

impl Hold {
    pub(crate) fn is_held(&self) -> bool {
        each!(self, guard => guard.is_held())
    }

    pub(crate) fn remaining(&self) -> Duration {
        each!(self, guard => guard.remaining())
    }

    pub(crate) fn token(&self) -> Option<u64> {
        match self {
            Self::Fenced(guard) => Some(guard.token()),
            _ => None,
        }
    }

    /// Returns the field of the lock's hash on the server, for a hold that has one field on one server.
    pub(crate) fn field(&self) -> Option<String> {
        match self {
            Self::Plain(guard) => Some(guard.wire_owner().to_string()),
            Self::Fenced(guard) => Some(guard.wire_owner().to_string()),
            Self::Permit(_) | Self::Quorum(_) => None,
        }
    }

    pub(crate) async fn lost(&self) -> String {
        format!("{:?}", each!(self, guard => guard.lost().await))
    }

    pub(crate) async fn release(self) -> String {
        each!(self, guard => match guard.release().await {
            Ok(outcome) => format!("{outcome:?}"),
            Err(error) => error.to_string(),
        })
    }
}
