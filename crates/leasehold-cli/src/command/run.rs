//! `leasehold run`: acquire the lock, run the command, release the lock, and report the outcome by the exit code.
//!
//! Invariant: at every end the lock is released or its release is left to the client's close, and the command runs only
//! in between.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Error, anyhow};
use leasehold::config::ConfigConnectError;
use leasehold::error::{AcquireErrorKind, InspectErrorKind, NameError, ReleaseErrorKind, StoreErrorKind};
use leasehold::{
    AcquireError, Client, ConnectError, Guard, InspectError, LostReason, Name, ReleaseError, ReleaseOutcome,
};
use leasehold_proto::StoreError;
use leasehold_proto::recipe::foreign::Foreign;
use tokio::runtime;

use crate::address::Address;
use crate::arguments::Run;
use crate::arguments::operator::Sources;
use crate::clock::{Instant, now};
use crate::command::job::Job;
use crate::duration::shown;
use crate::exit::{self, Failure};
use crate::kind::{Acquired, Kind, Wait};
use crate::on_lost::OnLost;
use crate::report::Report;
use crate::settings::{self, Settings};
use crate::signals::Signals;
use crate::supervise::{Finished, Hold};
use crate::whole_wait::WholeWait;

/// Runs the command under the lock and returns the exit code.
pub(crate) fn run(arguments: &Run) -> u8 {
    let report = Report::new(arguments.verbose);
    reported(report, attempt(arguments, report))
}

/// Reports a failure, and returns the exit code.
pub(super) fn reported(report: Report, outcome: Result<u8, Failure>) -> u8 {
    outcome.unwrap_or_else(|failure| {
        report.warn(format_args!("{:#}{}", failure.reason, advice(failure.reason.as_ref())));
        failure.code
    })
}

/// Checks the arguments that need no server, then runs the rest on its own runtime.
///
/// The runtime stays on this thread, the program's first, because the kernel ties the command's life to the thread that
/// started it.
fn attempt(arguments: &Run, report: Report) -> Result<u8, Failure> {
    name(&arguments.name)?;
    warn_of_password(arguments.url.as_ref(), report);
    let settings = settings::read(arguments)?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::system)?;
    runtime.block_on(connected(arguments, &settings, report))
}

/// Warns of a password that others can see.
pub(super) fn warn_of_password(url: Option<&Address>, report: Report) {
    if url.is_some_and(Address::has_password) {
        report.warn(format_args!(
            "every user of this machine can see the password in --url (with ps); set LEASEHOLD_URL instead"
        ));
    }
}

/// Returns the lock's name, in which braces are a hash tag, because a shell cannot call `Name::with_hash_tag`.
pub(super) fn name(text: &str) -> Result<Name, Failure> {
    let name = match Name::new(text) {
        Err(NameError::Brace { .. }) => Name::raw_redisson(text),
        name => name,
    };
    name.map_err(|error| {
        let reason = match error {
            NameError::CrossSlot => anyhow!(
                "its braces do not form a hash tag, as in {{a}}:b or a:{{b}}; use a hash tag, or no braces"
            ),
            error => Error::new(error),
        };
        Failure::usage(reason.context(format!("the name {text:?} cannot be used")))
    })
}

/// Returns what an operator can do about an error of a server, where the library's own words cannot name this program.
fn advice(error: &(dyn std::error::Error + 'static)) -> &'static str {
    let Some(error) = of_server(error) else { return "" };
    let foreign = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<Foreign>());
    if foreign.is_some_and(Foreign::is_string) {
        return "; if it is a lock of another library, use --plain";
    }
    match error.kind {
        StoreErrorKind::PermissionDenied => {
            "; `leasehold doctor` finds the rights that the user lacks, and `leasehold acl` prints all of them"
        }
        _ => "",
    }
}

/// Returns the error of a server that is behind an error of the library.
fn of_server<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a StoreError> {
    if let Some(AcquireError { kind, .. }) = error.downcast_ref() {
        match kind {
            AcquireErrorKind::Store(error)
            | AcquireErrorKind::OtherKind(error)
            | AcquireErrorKind::Unknown { source: error, .. } => Some(error),
            _ => None,
        }
    } else if let Some(InspectError { kind: InspectErrorKind::Store(error), .. }) = error.downcast_ref() {
        Some(error)
    } else if let Some(ReleaseError { kind: ReleaseErrorKind::Unconfirmed { source, .. }, .. }) =
        error.downcast_ref()
    {
        Some(source)
    } else {
        None
    }
}

/// Connects, and always closes the client. By then the client has undone an acquire that was given up.
async fn connected(arguments: &Run, settings: &Settings, report: Report) -> Result<u8, Failure> {
    let mut signals = Signals::ending().map_err(Failure::system)?;
    let mut whole_wait = WholeWait::new(arguments.wait, report);
    let client = tokio::select! {
        biased;
        signal = signals.next() => return Ok(exit::by_signal(signal as i32)),
        client = connect(settings, &mut whole_wait) => client?,
    };
    let code = locked(arguments, (&client, &mut whole_wait), &mut signals, report).await;
    client.close().await;
    code
}

/// Connects, for as long as `--wait` says.
async fn connect(settings: &Settings, whole_wait: &mut WholeWait) -> Result<Client, Failure> {
    loop {
        let error = match settings.config.connect().await {
            Ok(client) => return Ok(client),
            Err(error) => error,
        };
        let may_pass = matches!(&error, ConfigConnectError::Connect(error) if error.is_retryable());
        let failure = not_connected(error, settings.is_default_address);
        whole_wait.go_on(failure, may_pass).await?;
    }
}

/// Makes one attempt to connect.
pub(super) async fn connect_once(settings: &Settings) -> Result<Client, Failure> {
    settings.config.connect().await.map_err(|error| not_connected(error, settings.is_default_address))
}

/// Connects, does the work, and closes. A signal while it connects ends it, and later ones are for the work.
///
/// The runtime stays on this thread, as that of `leasehold run`.
pub(super) fn with_client(
    sources: &Sources,
    work: impl AsyncFnOnce(&Client, &mut Signals) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    let settings = settings::client(sources)?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::system)?;
    runtime.block_on(async {
        let mut signals = Signals::stopping().map_err(Failure::system)?;
        let client = tokio::select! {
            biased;
            signal = signals.next() => return Ok(exit::by_signal(signal as i32)),
            client = connect_once(&settings) => client?,
        };
        let code = work(&client, &mut signals).await;
        client.close().await;
        code
    })
}

/// Acquires the lock, runs the command, releases.
async fn locked(
    arguments: &Run,
    (client, whole_wait): (&Client, &mut WholeWait),
    signals: &mut Signals,
    report: Report,
) -> Result<u8, Failure> {
    let (name, since) = (&arguments.name, now());
    report.verbose(format_args!("waiting for the lock {name:?}"));
    let acquired = tokio::select! {
        biased;
        signal = signals.next() => {
            report.verbose(format_args!("{signal} while waiting for the lock {name:?}; the command was not run"));
            return Ok(exit::by_signal(signal as i32));
        }
        acquired = acquire(arguments, client, whole_wait, report) => acquired?,
    };
    let Some(acquired) = acquired else {
        let waited = shown(now() - since);
        report
            .verbose(format_args!("the lock {name:?} was not acquired in {waited}; the command was not run"));
        return Ok(arguments.conflict_exit_code);
    };
    report.verbose(format_args!("acquired the lock {name:?} after {}", shown(now() - since)));
    let since = now();
    let finished = supervised(arguments, &acquired, signals, report).await;
    let guard = Arc::into_inner(acquired.guard).expect("the watcher's thread, which had it too, has ended");
    let released = release(guard, name, since, report).await;
    Ok(code(&finished?, released, arguments.on_lost, report))
}

async fn acquire(
    arguments: &Run,
    client: &Client,
    whole_wait: &mut WholeWait,
    report: Report,
) -> Result<Option<Acquired>, Failure> {
    let (name, kind) = (name(&arguments.name)?, Kind::of(&arguments.kind));
    if arguments.verbose && kind == Kind::Plain {
        // Only a verbose command reads the expiry, because that costs a call.
        warn_of_endless(client, &name, report).await;
    }
    loop {
        let wait = match whole_wait.left() {
            Some(wait) => Wait::For(wait),
            None if arguments.nonblock => Wait::None,
            None => Wait::Endless,
        };
        match kind.acquire(client, &name, wait, report).await {
            Err(failure) => {
                let may_pass = failure.is_retryable();
                whole_wait.go_on(failure, may_pass).await?;
            }
            acquired => return acquired,
        }
    }
}

/// Says that the wait may never end, since a key without an expiry stays until it is deleted.
async fn warn_of_endless(client: &Client, name: &Name, report: Report) {
    let remaining = client.plain_lock(name.clone()).remaining().await;
    if remaining.is_err_and(|error| matches!(error.kind, InspectErrorKind::NoExpiry)) {
        let name = name.as_str();
        report.verbose(format_args!(
            "the key of {name:?} has no expiry, so it stays until its holder deletes it (see `leasehold show`)"
        ));
    }
}

/// Supervises the command until it has ended.
async fn supervised(
    arguments: &Run,
    acquired: &Acquired,
    signals: &mut Signals,
    report: Report,
) -> Result<Finished, Failure> {
    let variables = [
        ("LEASEHOLD_NAME", Some(arguments.name.clone())),
        ("LEASEHOLD_OWNER", Some(acquired.owner.clone())),
        // A token in the environment belongs to another lock, under which this program itself runs.
        ("LEASEHOLD_TOKEN", acquired.token.map(|token| token.to_string())),
    ];
    let Run { command, on_lost, grace, .. } = arguments;
    let job = Job { command, variables: &variables, on_lost: *on_lost, grace: *grace, report };
    let guard = Arc::clone(&acquired.guard);
    job.run(&Held(&acquired.guard), move || guard.remaining(), signals).await
}

/// Releases and reports the result, or returns `None` when the result is unknown.
async fn release(guard: Guard, name: &str, since: Instant, report: Report) -> Option<ReleaseOutcome> {
    match guard.release().await {
        Ok(released) => {
            if released == ReleaseOutcome::Released {
                let held = shown(now() - since);
                report.verbose(format_args!("released the lock {name:?} after {held}"));
            }
            Some(released)
        }
        Err(error) => {
            report.warn(format_args!("{error}{}", advice(&error)));
            None
        }
    }
}

/// Returns the exit code after the command has run.
fn code(finished: &Finished, released: Option<ReleaseOutcome>, on_lost: OnLost, report: Report) -> u8 {
    let own = finished.ending.exit_code();
    if !finished.lost && released == Some(ReleaseOutcome::NotHeld) {
        report.warn(format_args!(
            "the lock was lost before the command ended with {own}; the loss was noticed too late to stop it"
        ));
    }
    let lost = finished.lost || released == Some(ReleaseOutcome::NotHeld);
    if lost && on_lost != OnLost::Ignore { exit::LOST } else { own }
}

fn not_connected(error: ConfigConnectError, is_default_address: bool) -> Failure {
    match error {
        ConfigConnectError::Connect(error @ ConnectError::Store { .. }) if is_default_address => {
            Failure::unavailable(anyhow!("{error} (the default address; set --url or LEASEHOLD_URL)"))
        }
        ConfigConnectError::Connect(error @ ConnectError::Store { .. }) => Failure::unavailable(error),
        ConfigConnectError::Connect(error @ ConnectError::Thread(_)) => Failure::system(error),
        // The configuration is checked, so the rest is a store that this build does not have.
        error => Failure::usage(error),
    }
}

/// A guard as the supervisor's [`Hold`].
#[derive(Debug)]
struct Held<'a>(&'a Guard);

impl Hold for Held<'_> {
    fn is_held(&self) -> bool {
        self.0.is_held()
    }

    fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    async fn lost(&self) -> String {
        match self.0.lost().await {
            LostReason::MaxHold => "--max-hold is over".to_owned(),
            reason => reason.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold::config::Config;

    #[test]
    fn only_the_default_address_is_explained() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("unix://{}", folder.path().join("no.sock").display());
        let config = Config::builder().set("url", url.as_str()).build().unwrap();
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let said = |is_default_address| {
            let error = runtime.block_on(config.connect()).unwrap_err();
            let failure = not_connected(error, is_default_address);
            assert_eq!(failure.code, exit::UNAVAILABLE);
            failure.reason.to_string()
        };
        let plain = format!("no connection to {url}: the server cannot be reached (no such file)");
        assert_eq!(said(false), plain);
        assert_eq!(said(true), format!("{plain} (the default address; set --url or LEASEHOLD_URL)"));
    }
}
