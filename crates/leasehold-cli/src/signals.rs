//! The signals that the wrapper receives and forwards.
//!
//! Invariant: a signal that was ignored when the wrapper was started (`nohup`, a background job of a plain shell) stays
//! ignored, here and in the command.

use std::fs;
use std::future::poll_fn;
use std::io;
use std::task::Poll;

use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind};

/// The signals that end a process that does not handle them.
const ENDING: [Signal; 6] =
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2];
/// Those of them by which a user or a supervisor ends a program.
const STOPPING: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];
/// The signals that matter only when there is a command to forward them to.
const JOB: [Signal; 2] = [Signal::SIGTSTP, Signal::SIGWINCH];

/// The signals that are caught, instead of doing what they usually do.
#[derive(Debug)]
pub(crate) struct Signals {
    streams: Vec<(Signal, unix::Signal)>,
    ignored: u64,
}

impl Signals {
    /// Catches the signals that would end the wrapper.
    pub(crate) fn ending() -> io::Result<Self> {
        let mut signals = Self::none();
        for signal in ENDING {
            signals.catch(signal)?;
        }
        Ok(signals)
    }

    /// Catches the signals that end a candidacy. The others are for the command.
    pub(crate) fn stopping() -> io::Result<Self> {
        let mut signals = Self::none();
        for signal in STOPPING {
            signals.catch(signal)?;
        }
        Ok(signals)
    }

    /// Catches the signals that would end the wrapper, and end no candidacy.
    pub(crate) fn passed_on() -> io::Result<Self> {
        let mut signals = Self::none();
        for signal in ENDING.into_iter().filter(|signal| !STOPPING.contains(signal)) {
            signals.catch(signal)?;
        }
        Ok(signals)
    }

    /// Catches nothing.
    pub(crate) fn none() -> Self {
        Self { streams: Vec::new(), ignored: ignored_mask() }
    }

    /// Also catches the signals that a command under supervision should receive.
    pub(crate) fn add_job_control(&mut self) -> io::Result<()> {
        for signal in JOB {
            self.catch(signal)?;
        }
        self.catch_always(Signal::SIGCONT)
    }

    /// Returns the next signal that arrived. Dropping this future loses no signal.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, stream) in &mut self.streams {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }

    fn catch(&mut self, signal: Signal) -> io::Result<()> {
        if self.ignored & bit(signal) != 0 {
            return Ok(());
        }
        self.catch_always(signal)
    }

    fn catch_always(&mut self, signal: Signal) -> io::Result<()> {
        let stream = unix::signal(SignalKind::from_raw(signal as i32))?;
        self.streams.push((signal, stream));
        Ok(())
    }
}

/// Returns the signals that this process ignores, as the kernel shows them, or none where it does not.
fn ignored_mask() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn bit(signal: Signal) -> u64 {
    1 << (signal as i32 - 1)
}
