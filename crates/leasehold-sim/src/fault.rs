//! What can go wrong.
//!
//! Invariant: a fault begins and ends at times that its plan knows; nothing of it outlives the plan's calm, except what
//! a network or a frozen server still delivers.
//! Called by: the plan, which chooses; the modes, which carry out.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::plan::Mode;

/// One thing that goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// What.
    pub(crate) kind: Kind,
    /// When it begins.
    pub(crate) begins: Duration,
    /// For how long, for those that last.
    pub(crate) lasts: Duration,
    /// Which process it is for, for those that are one's; a number past the processes is a foreign client's.
    pub(crate) process: usize,
    /// Which lock it is for, for those that are one's.
    pub(crate) name: Arc<str>,
    /// Random bits for what is left to chance.
    pub(crate) chance: u64,
}

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// Requests of one process do not arrive while it lasts.
    RequestsStall,
    /// Replies to one process do not arrive while it lasts: the scripts have run.
    RepliesStall,
    /// Both ways.
    Partition,
    /// The process's connections are reset.
    Reset,
    /// Nobody can connect, and nobody is connected.
    Refuse,
    /// Messages of one process take up to a second longer.
    Slow,
    /// Requests of one process are executed twice, at once or much later.
    Duplicate,
    /// Wake-ups for one process are lost.
    MessagesLost,
    /// The server's process stands still; what it has received it executes later.
    ServerFreeze,
    /// The server restarts and has its data.
    Restart,
    /// The server restarts without its data.
    RestartEmpty,
    /// A replica takes over that has not seen the last writes.
    Failover,
    /// The server forgets its scripts.
    ForgetScripts,
    /// The server is out of memory.
    OutOfMemory,
    /// The server takes no writes.
    ReadOnly,
    /// The server is busy with somebody's script.
    Busy,
    /// The server's clock jumps forward.
    ServerClockForward,
    /// The server's clock jumps back.
    ServerClockBack,
    /// A process's clock jumps forward.
    ClockForward,
    /// A process stands still.
    Pause,
    /// A process's users are not polled, as in a busy runtime; its driver is.
    Starve,
    /// A process is killed; another one takes its place.
    Crash,
    /// Futures of a process are dropped while they wait.
    DropFutures,
    /// A key is deleted under its holder.
    Delete,
    /// A lock is forced free.
    ForceRelease,
}

impl Kind {
    const ALL: [Self; 25] = [
        Self::RequestsStall,
        Self::RepliesStall,
        Self::Partition,
        Self::Reset,
        Self::Refuse,
        Self::Slow,
        Self::Duplicate,
        Self::MessagesLost,
        Self::ServerFreeze,
        Self::Restart,
        Self::RestartEmpty,
        Self::Failover,
        Self::ForgetScripts,
        Self::OutOfMemory,
        Self::ReadOnly,
        Self::Busy,
        Self::ServerClockForward,
        Self::ServerClockBack,
        Self::ClockForward,
        Self::Pause,
        Self::Starve,
        Self::Crash,
        Self::DropFutures,
        Self::Delete,
        Self::ForceRelease,
    ];

    /// All that can happen in a mode.
    #[must_use]
    pub(crate) fn all(mode: Mode) -> Vec<Self> {
        let possible = |kind: &Self| match mode {
            // No connection has a script cache of its own there.
            Mode::Fast => *kind != Self::ForgetScripts,
            // A byte stream repeats nothing.
            Mode::Full => *kind != Self::Duplicate,
            // What one of several servers may suffer, and what no assumption rules out.
            Mode::Quorum => matches!(
                kind,
                Self::RequestsStall
                    | Self::RepliesStall
                    | Self::Partition
                    | Self::Reset
                    | Self::Slow
                    | Self::Duplicate
                    | Self::MessagesLost
                    | Self::ServerFreeze
                    | Self::Restart
                    | Self::RestartEmpty
                    | Self::Pause
                    | Self::Starve
                    | Self::Crash
                    | Self::DropFutures
            ),
        };
        Self::ALL.into_iter().filter(possible).collect()
    }

    /// Whether it is over as soon as it has happened.
    #[must_use]
    pub(crate) const fn is_instant(self) -> bool {
        matches!(
            self,
            Self::Reset
                | Self::ForgetScripts
                | Self::ServerClockForward
                | Self::ServerClockBack
                | Self::ClockForward
                | Self::Delete
                | Self::ForceRelease
        )
    }

    /// Whether it leaves calls, the server and the driver alone.
    #[must_use]
    pub(crate) const fn leaves_calls_alone(self) -> bool {
        matches!(self, Self::MessagesLost | Self::DropFutures | Self::Starve | Self::ForgetScripts)
    }

    /// Whether it breaks an assumption of promise M: what was held before it may be held twice after it.
    #[must_use]
    pub(crate) const fn breaks_assumptions(self) -> bool {
        matches!(
            self,
            Self::RestartEmpty
                | Self::Failover
                | Self::ServerClockForward
                | Self::Delete
                | Self::ForceRelease
        )
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RequestsStall => "requests stall",
            Self::RepliesStall => "replies stall",
            Self::Partition => "partition",
            Self::Reset => "connections reset",
            Self::Refuse => "connections refused",
            Self::Slow => "slow network",
            Self::Duplicate => "requests repeated",
            Self::MessagesLost => "wake-ups lost",
            Self::ServerFreeze => "server frozen",
            Self::Restart => "server restarted",
            Self::RestartEmpty => "server restarted empty",
            Self::Failover => "failover to a stale replica",
            Self::ForgetScripts => "scripts forgotten",
            Self::OutOfMemory => "out of memory",
            Self::ReadOnly => "read-only",
            Self::Busy => "busy",
            Self::ServerClockForward => "server clock forward",
            Self::ServerClockBack => "server clock back",
            Self::ClockForward => "process clock forward",
            Self::Pause => "process paused",
            Self::Starve => "users not polled",
            Self::Crash => "process killed",
            Self::DropFutures => "futures dropped",
            Self::Delete => "key deleted",
            Self::ForceRelease => "forced free",
        })
    }
}

impl Fault {
    /// When it has ended.
    #[must_use]
    pub(crate) fn ends(&self) -> Duration {
        self.begins + self.lasts
    }

    /// How far a clock jumps: up to two seconds.
    #[must_use]
    pub(crate) const fn jump_ns(&self) -> i64 {
        (self.chance % 2_000_000_000) as i64
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, begins, lasts, process, name, .. } = self;
        write!(f, "{begins:?} {kind} (process {process}, {name}, for {lasts:?})")
    }
}
