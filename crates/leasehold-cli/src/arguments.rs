//! The command line: its grammar, in flock's words where flock has them, and its help.
//!
//! Invariant: nothing parsed here can print a password; see [`Address`].
//! Called by: `main`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::address::Address;
use crate::supervise::OnLost;
use crate::{duration, exec, watcher};

/// Distributed locks over Redis or Valkey, for programs and shell scripts.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run a command while holding a lock
    #[command(after_help = ABOUT)]
    Run(Run),
    /// Look at configuration files
    Config(Config),
    #[command(name = exec::VERB, hide = true)]
    Exec(exec::Arguments),
    #[command(name = watcher::VERB, hide = true)]
    Watch,
}

const ABOUT: &str = "\
The lock is renewed while the command runs and released when it ends. Without -n and --wait it is waited for, for
ever. No shell is involved: write `sh -c '...'` if you need one.

When the lock is lost (the server is gone for longer than the lease, somebody deleted the lock, --max-hold is over),
the command is stopped. During --grace it still runs, and somebody else may have the lock already; --on-lost kill
allows no such time. When this program itself is killed, the command and its process group are killed too, and the
lock is free again after one lease. What the command leaves running in the background when it ends is left alone.

DURATION is in seconds (10, 2.5) or has units (30s, 5m, 1h30m).

Environment:
  LEASEHOLD_URL  the server, when there is no --url: redis://[[user]:password@]host[:port][/db] or unix:///path.
                 The place for a password, which --url would show to every user of this machine.
  The command finds the lock's name in LEASEHOLD_NAME, and its holder as the server knows it in LEASEHOLD_OWNER.

Exit codes:
  that of the command, or 128+N when signal N ended it; and
    1  the lock was not obtained (-n, --wait); -E chooses another code
   64  wrong arguments, name or address
   69  the server cannot be reached or used; the command was not run
   71  the command could not be started or watched
   79  the lock was lost before the command ended (but see --on-lost ignore)
  126  the command cannot be executed
  127  the command was not found
  128+N  signal N came while waiting for the lock; the command was not run

Examples:
  leasehold run nightly-backup -- /usr/local/bin/backup --full   wait for ever
  leasehold run -n cron:report -- make report                    do nothing if another host is at it
  leasehold run --wait 5m -E 75 deploy:web -- ./deploy.sh        give up after 5 minutes, with code 75
  leasehold run --max-hold 1h --grace 30s import -- ./import     at most an hour, and 30 s to clean up
  LEASEHOLD_URL=redis://app:secret@redis.example.org leasehold run -v job -- ./job.sh

No guarantee that two commands never overlap: a machine that stands still for longer than the lease loses the lock
without noticing in time. What must never happen twice has to be refused by the resource itself.";

const CHECKED: &str = "\
Later files win over earlier ones, and LEASEHOLD_* variables over files: LEASEHOLD_TIMEOUT is `timeout`,
LEASEHOLD_LOCK__MAX_HOLD is `lock.max_hold`. Every value is printed as TOML with where it was set, secrets as ***.
Files that are named in it (passwords, TLS) are opened; no server is connected to.

Exit codes:
   0  the configuration is valid
  64  wrong arguments, or the configuration is not valid: stderr says which key of which file, and what to change

Examples:
  leasehold config check /etc/orders/leasehold.toml
  leasehold config check --no-env base.yaml production.yaml";

#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    pub(crate) verb: ConfigVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Print what comes of files and the environment, or say what is wrong with them
    #[command(after_help = CHECKED)]
    Check(Check),
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Leave LEASEHOLD_* variables out
    #[arg(long)]
    pub(crate) no_env: bool,

    /// TOML, YAML or JSON, by the end of its name
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The server [default: $LEASEHOLD_URL, else redis://127.0.0.1:6379]
    #[arg(long)]
    pub(crate) url: Option<Address>,

    /// Do not wait: give up when somebody else has the lock
    #[arg(short = 'n', long = "nonblock", visible_alias = "nb", conflicts_with = "wait")]
    pub(crate) nonblock: bool,

    /// Wait for the lock this long at most; 0 is the same as -n
    #[arg(short, long, visible_alias = "timeout", value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) wait: Option<Duration>,

    /// How long the lock stays when this machine dies
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse_lease)]
    pub(crate) lease: Duration,

    /// Hold the lock this long at most; it is lost then
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_lease)]
    pub(crate) max_hold: Option<Duration>,

    /// On loss: `term` (`kill` after --grace), `kill` at once, or `ignore`
    #[arg(long, value_name = "ACTION", value_enum, default_value = "term", hide_possible_values = true)]
    pub(crate) on_lost: OnLost,

    /// Time to clean up, from SIGTERM to SIGKILL
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::parse)]
    pub(crate) grace: Duration,

    /// The exit code when the lock was not obtained
    #[arg(short = 'E', long, value_name = "CODE", default_value = "1")]
    pub(crate) conflict_exit_code: u8,

    /// Say on stderr what happens
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// The lock's name: 1 to 512 bytes, no control characters, no braces
    pub(crate) name: String,

    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}
