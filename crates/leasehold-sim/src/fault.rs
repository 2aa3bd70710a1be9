//! The faults that a plan can inject.
//!
//! Invariant: a fault begins and ends at times that its plan knows. No effect outlasts the quiesce time of the plan,
//! except the messages that a network or a frozen server still delivers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::mode::Mode;

/// One fault of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The kind of the fault.
    pub(crate) kind: Kind,
    /// The time at which the fault begins.
    pub(crate) begins: Duration,
    /// The duration of a fault that lasts.
    pub(crate) lasts: Duration,
    /// The affected process, for faults of one process. A number past the processes names a foreign client.
    pub(crate) process: usize,
    /// The affected lock, for faults of one lock.
    pub(crate) name: Arc<str>,
    /// Random bits for the details of the fault.
    pub(crate) chance: u64,
}

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// Requests of one process do not arrive while the fault lasts.
    RequestsStall,
    /// Replies to one process do not arrive while the fault lasts. The scripts of these replies have run.
    RepliesStall,
    /// Neither requests nor replies of one process arrive while the fault lasts.
    Partition,
    /// The connections of the process are reset.
    Reset,
    /// All connections end, and the server accepts none while the fault lasts.
    Refuse,
    /// Messages of one process take up to a second longer.
    Slow,
    /// The connections of the process lead nowhere while the fault lasts, and neither end learns of it.
    HalfOpen,
    /// Some connections of the process end within a request or a reply while the fault lasts.
    Torn,
    /// The server reads the requests of the process a few bytes at a time while the fault lasts, and its replies come so.
    SlowReader,
    /// Requests of one process are executed twice, at once or much later.
    Duplicate,
    /// Wake-ups for one process are lost.
    MessagesLost,
    /// The server process is frozen, and executes the received requests later.
    ServerFreeze,
    /// The server restarts with its data.
    Restart,
    /// The server restarts without its data.
    RestartEmpty,
    /// A replica takes over that lacks the last writes.
    Failover,
    /// The server forgets its scripts.
    ForgetScripts,
    /// The server is out of memory.
    OutOfMemory,
    /// The server takes no writes.
    ReadOnly,
    /// The server is busy with a script of another client.
    Busy,
    /// The server's clock jumps forward.
    ServerClockForward,
    /// The server's clock jumps back.
    ServerClockBack,
    /// The clock of a process jumps forward.
    ClockForward,
    /// A process is paused.
    Pause,
    /// The users of a process are not polled, as in a busy runtime, but its driver is.
    Starve,
    /// The runtime of a process's users reads no connection while the fault lasts.
    LateRuntime,
    /// The runtime of a process's users ends, and the process goes on with others.
    EndedRuntime,
    /// A process is killed, and another process takes its place.
    Crash,
    /// Futures of a process are dropped while they wait.
    DropFutures,
    /// A key is deleted while a client holds it.
    Delete,
    /// A lock is released by force.
    ForceRelease,
    /// A replica takes over that lacks the last writes, and the former master goes on to grant while the fault lasts.
    SplitBrain,
    /// Another server of the fleet takes over, with all data.
    Switch,
    /// A slot moves to another server of the cluster. Until it has moved, its server names the other one.
    Migration,
    /// The replicas lose their master while the fault lasts.
    ReplicasAway,
}

impl Kind {
    const ALL: [Self; 34] = [
        Self::RequestsStall,
        Self::RepliesStall,
        Self::Partition,
        Self::Reset,
        Self::Refuse,
        Self::Slow,
        Self::HalfOpen,
        Self::Torn,
        Self::SlowReader,
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
        Self::LateRuntime,
        Self::EndedRuntime,
        Self::Crash,
        Self::DropFutures,
        Self::Delete,
        Self::ForceRelease,
        Self::Switch,
        Self::Migration,
        Self::ReplicasAway,
        Self::SplitBrain,
    ];

    /// Returns the kinds that are possible in a mode.
    #[must_use]
    pub(crate) fn all(mode: Mode) -> Vec<Self> {
        let possible = |kind: &Self| match mode {
            Mode::Single => !kind.needs_fleet(),
            // The foreign clients know one server alone.
            Mode::Fleet => !matches!(kind, Self::Refuse | Self::Duplicate),
            // The faults that one of several servers may suffer and that no assumption rules out.
            Mode::Quorum => matches!(
                kind,
                Self::RequestsStall
                    | Self::RepliesStall
                    | Self::Partition
                    | Self::Reset
                    | Self::Slow
                    | Self::HalfOpen
                    | Self::Torn
                    | Self::SlowReader
                    | Self::Duplicate
                    | Self::MessagesLost
                    | Self::ServerFreeze
                    | Self::Restart
                    | Self::RestartEmpty
                    | Self::Pause
                    | Self::Starve
                    | Self::LateRuntime
                    | Self::EndedRuntime
                    | Self::Crash
                    | Self::DropFutures
            ),
            // No assumption is broken. The other modes judge the lock below an election under such faults.
            Mode::Election => {
                !kind.needs_fleet() && !kind.breaks_assumptions() && *kind != Self::ServerClockBack
            }
        };
        Self::ALL.into_iter().filter(possible).collect()
    }

    const fn needs_fleet(self) -> bool {
        matches!(self, Self::SplitBrain | Self::Switch | Self::Migration | Self::ReplicasAway)
    }

    /// Returns true if the fault is of the runtime to which a client lends its connections.
    #[must_use]
    pub(crate) const fn is_of_the_callers_runtime(self) -> bool {
        matches!(self, Self::LateRuntime | Self::EndedRuntime)
    }

    /// Returns true if a replica takes over that may lack the last writes.
    #[must_use]
    pub(crate) const fn promotes_stale(self) -> bool {
        matches!(self, Self::Failover | Self::SplitBrain)
    }

    /// Returns true if the server that answers afterwards may lack writes that were answered.
    #[must_use]
    pub(crate) const fn loses_writes(self) -> bool {
        matches!(self, Self::RestartEmpty) || self.promotes_stale()
    }

    /// Returns true if the fault ends in the moment in which it begins.
    #[must_use]
    pub(crate) const fn is_instant(self) -> bool {
        matches!(
            self,
            Self::Reset
                | Self::ForgetScripts
                | Self::ServerClockForward
                | Self::ServerClockBack
                | Self::ClockForward
                | Self::EndedRuntime
                | Self::Delete
                | Self::ForceRelease
        )
    }

    /// Returns true if the fault does not affect calls, the server or the driver.
    #[must_use]
    pub(crate) const fn leaves_calls_alone(self) -> bool {
        matches!(
            self,
            Self::MessagesLost
                | Self::DropFutures
                | Self::Starve
                | Self::LateRuntime
                | Self::EndedRuntime
                | Self::ForgetScripts
        )
    }

    /// Returns true if the fault breaks an assumption of promise M, so that an earlier hold and a later hold may both be
    /// valid after it.
    #[must_use]
    pub(crate) const fn breaks_assumptions(self) -> bool {
        self.loses_writes() || matches!(self, Self::ServerClockForward | Self::Delete | Self::ForceRelease)
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
            Self::HalfOpen => "connections half open",
            Self::Torn => "cut within a message",
            Self::SlowReader => "slow reader",
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
            Self::LateRuntime => "runtime late",
            Self::EndedRuntime => "runtime ended",
            Self::Crash => "process killed",
            Self::DropFutures => "futures dropped",
            Self::Delete => "key deleted",
            Self::ForceRelease => "forced free",
            Self::SplitBrain => "former master grants",
            Self::Switch => "failover without loss",
            Self::Migration => "slot moved",
            Self::ReplicasAway => "replicas away",
        })
    }
}

impl Fault {
    /// Returns true if the master of a fleet freezes while another server takes over.
    pub(crate) const fn freezes_master(&self) -> bool {
        matches!(self.kind, Kind::Failover | Kind::Switch) && self.chance / 100 % 3 == 1
    }

    /// Returns the time at which it has ended.
    #[must_use]
    pub(crate) fn ends(&self) -> Duration {
        self.begins + self.lasts
    }

    /// Returns the size of a clock jump, up to two seconds.
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
