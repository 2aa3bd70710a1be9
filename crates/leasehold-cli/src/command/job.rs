//! A command under a hold: its start with the watcher beside it, and its supervision.
//!
//! Invariant: the command begins only once the watcher knows its group.

use std::ffi::OsString;
use std::process;
use std::time::Duration;

use anyhow::Error;
use nix::sys::signal::Signal;

use crate::child::Child;
use crate::deadline::Deadline;
use crate::exit::Failure;
use crate::helper::helper;
use crate::on_lost::OnLost;
use crate::report::Report;
use crate::signals::Signals;
use crate::supervise::{Finished, Hold, Supervisor};
use crate::terminal::Terminal;
use crate::watcher::Watcher;
use crate::{exec, watcher};

/// A command, and what becomes of it when the lock is lost.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) command: &'a [OsString],
    /// The variables of its environment, or `None` for one that it must not have.
    pub(crate) variables: &'a [(&'static str, Option<String>)],
    pub(crate) on_lost: OnLost,
    pub(crate) grace: Duration,
    pub(crate) report: Report,
}

impl Job<'_> {
    /// Starts the watcher and the command, and supervises the command until it has ended. `remaining` returns the time for
    /// which the hold lasts without a renewal.
    pub(crate) async fn run(
        &self,
        hold: &impl Hold,
        remaining: impl Fn() -> Duration + Send + 'static,
        signals: &mut Signals,
    ) -> Result<Finished, Failure> {
        let system = |error| {
            Failure::system(Error::new(error).context("the command could not be started or supervised"))
        };
        signals.add_job_control().map_err(system)?;
        let mut watcher =
            helper(watcher::VERB).and_then(|mut program| Watcher::start(&mut program)).map_err(system)?;
        let mut starter = helper(exec::VERB).map_err(system)?;
        starter.arg(process::id().to_string()).arg("--").args(self.command);
        for (name, value) in self.variables {
            match value {
                Some(value) => starter.env(name, value),
                None => starter.env_remove(name),
            };
        }
        let child = Child::start(&mut starter).await.map_err(system)?;
        if let Err(error) = watcher.guard(child.group()) {
            // The watcher is gone, and the command has not begun. Without a watcher the command never begins.
            let _ = child.signal(Signal::SIGKILL);
            return Err(system(error));
        }
        let Self { on_lost, grace, report, .. } = *self;
        let deadline = Deadline::start(watcher, on_lost, grace, remaining).map_err(system)?;
        let terminal = Terminal::open();
        let supervisor = Supervisor { child, hold, signals, terminal, deadline, on_lost, grace, report };
        supervisor.run().await.map_err(system)
    }
}
