//! The arguments of the verbs about leaders.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use leasehold_proto::recipe::election::{INFO_MAX, check_candidate};

use super::operator::Sources;
use crate::duration;
use crate::on_lost::OnLost;

pub(crate) const ELECTED: &str = "\
The command runs in one process of all that name the same election: the leader. The others wait. Whenever this process
becomes the leader, the command is started, with the number of the term in LEASEHOLD_TERM, which only grows.

A term ends as planned when this program gets SIGTERM, SIGINT, SIGHUP or SIGQUIT, or when `leasehold resign` or
`leasehold transfer` asks for it. Then the command gets SIGTERM, and SIGKILL after --grace. The term stays renewed until
the command and its process group have ended, so no second leader begins before. After SIGTERM to this program nothing
is started again.

When the term is lost (the server is gone for longer than the lease, the lock was deleted, this program is frozen for
longer than the lease), another process may lead already: see --on-lost. This program campaigns again after a pause.
When the command ends by itself, the term ends too, and so does this program, with the code of the command.

No election can promise that two commands never overlap: a leader that is frozen works on when it wakes up, until it learns
of its loss. A resource that must not see two leaders compares LEASEHOLD_TERM, and refuses a lower one than it has seen.

Exit codes:
  that of the command, or 128+N when signal N ended it; and
    0  stopped by a signal after the command had ended well
   64  wrong arguments, name, address or configuration
   69  the server cannot be used, or the name belongs to another kind of lock
   71  the command could not be started or supervised
   79  --once, and the term was lost before the command ended
  126  the command cannot be executed
  127  the command was not found
  128+N  signal N came while another process led; the command was not run

Examples:
  leasehold elect scheduler -- ./scheduler
  leasehold elect --candidate \"$HOSTNAME\" --info \"$VERSION\" scheduler -- ./scheduler --port 80
  leasehold elect --once --grace 1m reports -- ./reports";

/// Runs a command as the leader.
#[derive(Debug, Args)]
#[command(override_usage = "leasehold elect [OPTIONS] <NAME> [--] <CMD>...")]
pub(crate) struct Elect {
    #[command(flatten)]
    pub(crate) sources: Sources,

    /// The name of this candidate [default: HOST:PID]
    #[arg(long, value_name = "NAME", value_parser = parse_candidate)]
    pub(crate) candidate: Option<String>,

    /// What observers see of this candidate, up to 512 bytes
    #[arg(long, value_name = "TEXT", value_parser = parse_info)]
    pub(crate) info: Option<String>,

    /// How long the term stays when this machine dies
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse_lease)]
    pub(crate) lease: Duration,

    /// Time to clean up, from SIGTERM to SIGKILL
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = duration::parse)]
    pub(crate) grace: Duration,

    /// Let candidates of a lower number go first; each step waits 500 ms more, up to 20
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u32).range(..=20))]
    pub(crate) priority: u32,

    /// On loss: `term` (`kill` after --grace), `kill` at once, or `ignore`
    #[arg(long, value_name = "ACTION", value_enum, default_value = "term", hide_possible_values = true)]
    pub(crate) on_lost: OnLost,

    /// End after the first term
    #[arg(long)]
    pub(crate) once: bool,

    /// Say on stderr what happens
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// The election's name: 1 to 512 bytes, no control characters, braces only as a hash tag: {a}:b
    pub(crate) name: String,

    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

pub(crate) const LED: &str = "\
A leader of Redisson (getFencedLock) has no candidate name here; its term is its fencing token.
What the server says may be older than the present:
only the leader itself knows that it leads.

Exit codes:
   0  there is a leader; with --watch, the reader of the lines has left
   1  nobody leads
  64  wrong arguments, name, address or configuration
  69  the server cannot be reached or used

Examples:
  leasehold leader scheduler
  leasehold leader --json scheduler | jq -r .host
  leasehold leader --watch scheduler";

/// Shows who leads.
#[derive(Debug, Args)]
pub(crate) struct Leader {
    #[command(flatten)]
    pub(crate) sources: Sources,

    /// Print a line for each change, until a signal
    #[arg(long)]
    pub(crate) watch: bool,

    /// Print JSON, a line for each state
    #[arg(long)]
    pub(crate) json: bool,

    /// The election's name
    pub(crate) name: String,
}

pub(crate) const TRANSFERRED: &str = "\
The leader ends its work first, then passes its term on without an instant in which the lock is free. If no such candidate
waits, it resigns.

Exit codes:
   0  the candidate leads
   1  nobody leads, or the leader does not answer: it is frozen, cut off, or of another library
   2  another candidate leads, or the leader has not ended its term within --wait
  64  wrong arguments, name, address or configuration
  69  the server cannot be reached or used

Example:
  leasehold transfer scheduler --to host-b:812";

/// Asks the leader to pass its term on.
#[derive(Debug, Args)]
pub(crate) struct Transfer {
    #[command(flatten)]
    pub(crate) sources: Sources,

    /// The candidate that is to lead
    #[arg(long, value_name = "CANDIDATE", value_parser = parse_candidate)]
    pub(crate) to: String,

    /// How long the leader may take to end its work
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    pub(crate) wait: Duration,

    /// The election's name
    pub(crate) name: String,
}

pub(crate) const RESIGNED: &str = "\
The leader ends its work first, releases the lock, and campaigns again after a lease, so another candidate leads first.

Exit codes:
   0  the term has ended
   1  nobody leads, or the leader does not answer: it is frozen, cut off, or of another library
   2  the leader has not ended its term within --wait
  64  wrong arguments, name, address or configuration
  69  the server cannot be reached or used

Example:
  leasehold resign scheduler";

/// Asks the leader to end its term.
#[derive(Debug, Args)]
pub(crate) struct Resign {
    #[command(flatten)]
    pub(crate) sources: Sources,

    /// How long the leader may take to end its work
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    pub(crate) wait: Duration,

    /// The election's name
    pub(crate) name: String,
}

fn parse_candidate(text: &str) -> Result<String, String> {
    if check_candidate(text) {
        return Ok(text.to_owned());
    }
    Err("a candidate has 1 to 255 bytes without control characters".to_owned())
}

fn parse_info(text: &str) -> Result<String, String> {
    if text.len() <= INFO_MAX {
        return Ok(text.to_owned());
    }
    Err(format!("the info has up to {INFO_MAX} bytes"))
}
