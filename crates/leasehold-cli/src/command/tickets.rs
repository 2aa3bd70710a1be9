//! `leasehold acquire` and `leasehold release --ticket`: a lock that one process takes and another one releases.
//!
//! Invariant: a ticket is printed only for a hold that nobody else has, and a hold without a printed ticket is released.

use std::io::Read;
use std::time::Duration;

use anyhow::anyhow;
use leasehold::error::TicketErrorKind;
use leasehold::lock::Kind;
use leasehold::{Client, Guard, Lock, ReleaseOutcome, Ticket};
use tokio::runtime;

use crate::arguments::operator::Sources;
use crate::arguments::tickets::Acquire;
use crate::command::run::{connect_once, name, reported, warn_of_password};
use crate::exit::{self, Failure};
use crate::report::{Report, try_write_to_stdout};
use crate::settings;
use crate::signals::Signals;

/// The exit codes besides 0.
const BUSY: u8 = 1;
const GONE: u8 = 1;

/// Runs `leasehold acquire` and returns the exit code.
pub(crate) fn run(arguments: &Acquire) -> u8 {
    with(&arguments.sources, async |client| {
        let name = name(&arguments.name)?;
        let wait = if arguments.nonblock { Some(Duration::ZERO) } else { arguments.wait };
        let guard = if arguments.fair {
            acquired(&client.fair_lock(name), wait).await?
        } else if arguments.fenced {
            acquired(&client.fenced_lock(name), wait).await?
        } else {
            acquired(&client.lock(name), wait).await?
        };
        let Some(guard) = guard else { return Ok(BUSY) };
        let ticket = guard.into_ticket(arguments.valid).await.map_err(Failure::unavailable)?;
        if !try_write_to_stdout(&format!("{ticket}\n")) {
            // Nobody has the ticket, so nobody could release the lock.
            client
                .adopt(&ticket)
                .await
                .map_err(Failure::unavailable)?
                .release()
                .await
                .map_err(Failure::unavailable)?;
            return Err(Failure::system(anyhow!("the ticket could not be written; the lock is released")));
        }
        Ok(0)
    })
}

/// Acquires within the wait.
async fn acquired<K: Kind>(lock: &Lock<K>, wait: Option<Duration>) -> Result<Option<Guard>, Failure> {
    let guard = match wait {
        None => Some(lock.lock().await.map_err(Failure::unavailable)?),
        Some(wait) if wait.is_zero() => lock.try_lock().await.map_err(Failure::unavailable)?,
        Some(wait) => lock.try_lock_for(wait).await.map_err(Failure::unavailable)?,
    };
    Ok(guard.map(Into::into))
}

/// Runs `leasehold release --ticket` and returns the exit code.
pub(crate) fn release(sources: &Sources, text: &str) -> u8 {
    with(sources, async |client| {
        let ticket: Ticket = read(text)?.parse().map_err(Failure::usage)?;
        let guard = match client.adopt(&ticket).await {
            Ok(guard) => guard,
            Err(error) if error.kind == TicketErrorKind::Gone => {
                Report::new(false).warn(format_args!("{error}"));
                return Ok(GONE);
            }
            Err(error) => return Err(Failure::unavailable(error)),
        };
        match guard.release().await.map_err(Failure::unavailable)? {
            ReleaseOutcome::NotHeld => Ok(GONE),
            _ => Ok(0),
        }
    })
}

/// Returns the ticket's text: the argument, or the first line of the standard input.
fn read(text: &str) -> Result<String, Failure> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    // A ticket has at most 4 KiB.
    let mut line = String::new();
    std::io::stdin().take(8_192).read_to_string(&mut line).map_err(Failure::system)?;
    Ok(line.trim().to_owned())
}

/// Connects, does the work unless a signal comes before, and closes.
fn with(sources: &Sources, work: impl AsyncFnOnce(&Client) -> Result<u8, Failure>) -> u8 {
    let report = Report::new(false);
    let attempt = || {
        warn_of_password(sources.url.as_ref(), report);
        let settings = settings::client(sources)?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::system)?;
        runtime.block_on(async {
            let mut signals = Signals::stopping().map_err(Failure::system)?;
            let client = tokio::select! {
                biased;
                signal = signals.next() => return Ok(exit::by_signal(signal as i32)),
                client = connect_once(&settings) => client?,
            };
            let code = tokio::select! {
                biased;
                signal = signals.next() => Ok(exit::by_signal(signal as i32)),
                code = work(&client) => code,
            };
            // Releases what a signal has interrupted.
            client.close().await;
            code
        })
    };
    reported(report, attempt())
}
