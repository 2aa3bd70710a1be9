//! The arguments of the verb that acquires a lock and leaves it to another process.

use std::time::Duration;

use clap::Args;

use super::operator::Sources;
use crate::duration;

pub(crate) const ACQUIRED: &str = "\
Prints a ticket: a line of text with which another process can have the lock, once. `leasehold release --ticket` releases
with it, and a program that uses the library adopts it (Client::adopt). Nothing renews the lock meanwhile: it stays closed
for --valid, or for the lease of the lock (30 s) if that is longer, and is free afterwards.
Whoever has the ticket can release the lock, so treat it like a password.

For work that begins in one process and ends in another, such as ExecStartPre= and ExecStopPost= of a unit. Use
`leasehold run` if the work is one command: it renews the lock, and frees it when the machine dies.

Exit codes:
   0  acquired; the ticket is on stdout
   1  the lock was not acquired (-n, --wait)
  64  wrong arguments, name, address or configuration
  69  the server cannot be reached or used, or the name belongs to another kind of lock
  128+N  signal N came while waiting for the lock

Examples:
  leasehold acquire deploy:web --valid 1h >/run/deploy.ticket
  leasehold release --ticket - </run/deploy.ticket";

/// Acquires a lock for another process.
#[derive(Debug, Args)]
pub(crate) struct Acquire {
    #[command(flatten)]
    pub(crate) sources: Sources,

    /// How long the lock stays closed if nobody uses the ticket
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_lease)]
    pub(crate) valid: Duration,

    /// Give up at once if the lock is held
    #[arg(short, long)]
    pub(crate) nonblock: bool,

    /// Give up after this time
    #[arg(long, value_name = "DURATION", conflicts_with = "nonblock", value_parser = duration::parse)]
    pub(crate) wait: Option<Duration>,

    /// Take a fair lock
    #[arg(long, conflicts_with = "fenced")]
    pub(crate) fair: bool,

    /// Take a fenced lock
    #[arg(long)]
    pub(crate) fenced: bool,

    /// The lock's name: 1 to 512 bytes, no control characters, braces only as a hash tag: {a}:b
    pub(crate) name: String,
}
