//! The kinds of lock that a command can run under, and their acquires.
//!
//! Invariant: every kind takes its terms from its own section of the configuration, and ends in one guard.

use std::sync::Arc;
use std::time::Duration;

use leasehold::error::{AcquireErrorKind, InspectErrorKind, OperationErrorKind};
use leasehold::lock::HoldGuard;
use leasehold::{AcquireError, Client, ExpirableSemaphore, Guard, InspectError, Lock, Name, OperationError};

use crate::arguments::KindOptions;
use crate::exit::Failure;
use crate::report::Report;

/// A kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Reentrant,
    Fair,
    Fenced,
    Plain,
    Shared,
    Exclusive,
    Slots(u32),
}

/// The limit of the wait for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    None,
    For(Duration),
    Endless,
}

/// The lock, and the facts about it that its command receives.
#[derive(Debug)]
pub(crate) struct Acquired {
    pub(crate) guard: Arc<Guard>,
    /// The entry on the server: the wire owner, or the permit's id.
    pub(crate) owner: String,
    /// The fencing token of a fenced lock.
    pub(crate) token: Option<u64>,
}

impl Kind {
    /// Returns the kind that the options name.
    pub(crate) fn of(options: &KindOptions) -> Self {
        match options {
            KindOptions { slots: Some(slots), .. } => Self::Slots(*slots),
            KindOptions { shared: true, .. } => Self::Shared,
            KindOptions { exclusive: true, .. } => Self::Exclusive,
            KindOptions { fair: true, .. } => Self::Fair,
            KindOptions { fenced: true, .. } => Self::Fenced,
            KindOptions { plain: true, .. } => Self::Plain,
            _ => Self::Reentrant,
        }
    }

    /// Returns the section of the configuration with the terms of its holds.
    pub(crate) const fn section(self) -> &'static str {
        match self {
            Self::Reentrant => "lock",
            Self::Fair => "fair_lock",
            Self::Fenced => "fenced_lock",
            Self::Plain => "plain_lock",
            Self::Shared | Self::Exclusive => "rw_lock",
            Self::Slots(_) => "expirable_semaphore",
        }
    }

    /// Acquires the lock, or returns `None` when other holders had it for all of the wait.
    pub(crate) async fn acquire(
        self,
        client: &Client,
        name: &Name,
        wait: Wait,
        report: Report,
    ) -> Result<Option<Acquired>, Failure> {
        let named = || name.clone();
        match self {
            Self::Reentrant => lock(&client.lock(named()), wait).await,
            Self::Plain => lock(&client.plain_lock(named()), wait).await,
            Self::Fair => lock(&client.fair_lock(named()), wait).await,
            Self::Shared => lock(&client.rw_lock(named()).read_lock(), wait).await,
            Self::Exclusive => lock(&client.rw_lock(named()).write_lock(), wait).await,
            Self::Fenced => {
                let guard = wait.with(&client.fenced_lock(named())).await?;
                Ok(guard.map(|guard| Acquired { token: Some(guard.token()), ..guard.into() }))
            }
            Self::Slots(slots) => {
                permit(&client.expirable_semaphore(named()), slots, name, wait, report).await
            }
        }
    }
}

async fn lock<K>(lock: &Lock<K>, wait: Wait) -> Result<Option<Acquired>, Failure>
where
    K: leasehold::lock::Kind<Guard = Guard>,
{
    Ok(wait.with(lock).await?.map(Acquired::from))
}

async fn permit(
    semaphore: &ExpirableSemaphore,
    slots: u32,
    name: &Name,
    wait: Wait,
    report: Report,
) -> Result<Option<Acquired>, Failure> {
    if let Some(before) = set_slots(semaphore, slots).await? {
        report.warn(format_args!(
            "the semaphore {name:?} had {before} slots and has {slots} now; use the same --slots everywhere"
        ));
    }
    let permit = match wait {
        Wait::None => semaphore.try_acquire().await?,
        Wait::For(wait) => semaphore.try_acquire_for(wait).await?,
        Wait::Endless => Some(semaphore.acquire().await?),
    };
    Ok(permit.map(|permit| {
        let owner = permit.ids().first().map(ToString::to_string).unwrap_or_default();
        Acquired { owner, ..Guard::from(permit).into() }
    }))
}

/// Sets the number of permits of the semaphore, and returns the former number if it differed.
async fn set_slots(semaphore: &ExpirableSemaphore, slots: u32) -> Result<Option<i64>, Failure> {
    if semaphore.permits().await? == i64::from(slots) || semaphore.try_set_permits(slots).await? {
        return Ok(None);
    }
    let before = semaphore.permits().await?;
    if before == i64::from(slots) {
        return Ok(None);
    }
    semaphore.set_permits(slots).await?;
    Ok(Some(before))
}

impl Wait {
    async fn with<K: leasehold::lock::Kind>(self, lock: &Lock<K>) -> Result<Option<K::Guard>, AcquireError> {
        match self {
            Self::None => lock.try_lock().await,
            Self::For(wait) => lock.try_lock_for(wait).await,
            Self::Endless => lock.lock().await.map(Some),
        }
    }
}

impl<G: HoldGuard> From<G> for Acquired {
    fn from(guard: G) -> Self {
        let guard: Guard = guard.into();
        Self { owner: guard.wire_owner().to_string(), token: None, guard: Arc::new(guard) }
    }
}

impl From<AcquireError> for Failure {
    fn from(error: AcquireError) -> Self {
        match error.kind {
            AcquireErrorKind::Name(_)
            | AcquireErrorKind::Lease(_)
            | AcquireErrorKind::MaxHold { .. }
            | AcquireErrorKind::MinHold { .. }
            | AcquireErrorKind::Margin { .. } => Self::usage(error),
            _ => Self::unavailable(error),
        }
    }
}

impl From<InspectError> for Failure {
    fn from(error: InspectError) -> Self {
        match error.kind {
            InspectErrorKind::Name(_) => Self::usage(error),
            _ => Self::unavailable(error),
        }
    }
}

impl From<OperationError> for Failure {
    fn from(error: OperationError) -> Self {
        match error.kind {
            OperationErrorKind::Name(_) => Self::usage(error),
            _ => Self::unavailable(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::arguments::{Arguments, Verb};

    fn kind(options: &[&str]) -> Result<Kind, clap::error::ErrorKind> {
        let words = [&["leasehold", "run"], options, &["name", "--", "true"]].concat();
        match Arguments::try_parse_from(words).map_err(|error| error.kind())?.verb {
            Verb::Run(run) => Ok(Kind::of(&run.kind)),
            _ => unreachable!("the verb is run"),
        }
    }

    #[test]
    fn each_option_maps_to_a_kind_and_its_own_section() {
        for (options, expected, section) in [
            (&[][..], Kind::Reentrant, "lock"),
            (&["--fair"], Kind::Fair, "fair_lock"),
            (&["--fenced"], Kind::Fenced, "fenced_lock"),
            (&["--plain"], Kind::Plain, "plain_lock"),
            (&["-s"], Kind::Shared, "rw_lock"),
            (&["--shared"], Kind::Shared, "rw_lock"),
            (&["-x"], Kind::Exclusive, "rw_lock"),
            (&["--exclusive"], Kind::Exclusive, "rw_lock"),
            (&["--slots", "3"], Kind::Slots(3), "expirable_semaphore"),
        ] {
            assert_eq!(kind(options), Ok(expected), "{options:?}");
            assert_eq!(expected.section(), section);
        }
    }

    #[test]
    fn two_kinds_at_once_are_rejected() {
        let all: [&[&str]; 6] =
            [&["-s"], &["-x"], &["--fair"], &["--fenced"], &["--plain"], &["--slots", "2"]];
        for one in all {
            for other in all.into_iter().filter(|other| *other != one) {
                let refused = kind(&[one, other].concat());
                assert_eq!(refused, Err(clap::error::ErrorKind::ArgumentConflict), "{one:?} {other:?}");
            }
        }
        for slots in ["0", "-1", "many", "4294967296"] {
            assert!(kind(&[&format!("--slots={slots}")]).is_err(), "{slots}");
        }
    }
}
