//! `leasehold acquire` and `leasehold release --ticket`: a lock that one process takes and another one releases.
//!
//! Invariant: a ticket is printed only for a hold that nobody else has, and a hold without a printed ticket is released.

use std::io::Read;
use std::sync::Arc;

use anyhow::anyhow;
use leasehold::error::{EnsureErrorKind, TicketErrorKind};
use leasehold::{Client, Name, ReleaseOutcome, Ticket};

use crate::arguments::operator::Sources;
use crate::arguments::tickets::Acquire;
use crate::command::run::{name, reported, warn_of_password, with_client};
use crate::exit::{self, Failure};
use crate::kind::{Kind, Wait};
use crate::report::{Report, try_write_to_stdout};

/// The exit codes besides 0.
const BUSY: u8 = 1;
const GONE: u8 = 1;

/// Runs `leasehold acquire` and returns the exit code.
pub(crate) fn run(arguments: &Acquire) -> u8 {
    let report = Report::new(false);
    let attempt = || {
        warn_of_password(arguments.sources.url.as_ref(), report);
        let name = name(&arguments.name)?;
        unless_stopped(&arguments.sources, async |client| acquire(client, &name, arguments, report).await)
    };
    reported(report, attempt())
}

/// Acquires the lock, and prints its ticket.
async fn acquire(client: &Client, name: &Name, arguments: &Acquire, report: Report) -> Result<u8, Failure> {
    let kind = match arguments {
        Acquire { fair: true, .. } => Kind::Fair,
        Acquire { fenced: true, .. } => Kind::Fenced,
        _ => Kind::Reentrant,
    };
    let wait = match (arguments.nonblock, arguments.wait) {
        (true, _) => Wait::None,
        (false, Some(wait)) => Wait::For(wait),
        (false, None) => Wait::Endless,
    };
    let Some(acquired) = kind.acquire(client, name, wait, report).await? else { return Ok(BUSY) };
    let guard = Arc::into_inner(acquired.guard).expect("nobody else has the guard");
    let ticket = guard.into_ticket(arguments.valid).await.map_err(|error| match &error.kind {
        TicketErrorKind::Extend(EnsureErrorKind::TooLong { .. }) => Failure::usage(error),
        _ => Failure::unavailable(error),
    })?;
    if try_write_to_stdout(&format!("{ticket}\n")) {
        return Ok(0);
    }
    // Nobody has the ticket, so nobody could release the lock.
    let guard = client.adopt(&ticket).await.map_err(Failure::unavailable)?;
    guard.release().await.map_err(Failure::unavailable)?;
    Err(Failure::system(anyhow!("the ticket could not be written; the lock is released")))
}

/// Runs `leasehold release --ticket` and returns the exit code.
pub(crate) fn release(sources: &Sources, text: &str) -> u8 {
    let report = Report::new(false);
    let attempt = || {
        warn_of_password(sources.url.as_ref(), report);
        let ticket: Ticket = read(text)?.parse().map_err(Failure::usage)?;
        unless_stopped(sources, async |client| adopt_and_release(client, &ticket, report).await)
    };
    reported(report, attempt())
}

async fn adopt_and_release(client: &Client, ticket: &Ticket, report: Report) -> Result<u8, Failure> {
    let guard = match client.adopt(ticket).await {
        Ok(guard) => guard,
        Err(error) if error.kind == TicketErrorKind::Gone => {
            report.warn(format_args!("{error}"));
            return Ok(GONE);
        }
        Err(error) => return Err(Failure::unavailable(error)),
    };
    match guard.release().await.map_err(Failure::unavailable)? {
        ReleaseOutcome::NotHeld => Ok(GONE),
        _ => Ok(0),
    }
}

/// Returns the ticket's text: the argument, or the first line of the standard input.
fn read(text: &str) -> Result<String, Failure> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    // A ticket has at most 90 KB.
    let mut line = String::new();
    std::io::stdin().take(100_000).read_to_string(&mut line).map_err(Failure::system)?;
    Ok(line.trim().to_owned())
}

/// Does the work unless a signal comes before. The close of the client releases what a signal has interrupted.
fn unless_stopped(
    sources: &Sources,
    work: impl AsyncFnOnce(&Client) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    with_client(sources, async |client, signals| {
        tokio::select! {
            biased;
            signal = signals.next() => Ok(exit::by_signal(signal as i32)),
            code = work(client) => code,
        }
    })
}
