//! The command line: its grammar, in flock's words where flock has them, and its help.
//!
//! Invariant: no value parsed here can print a password, as [`Address`] explains.

pub(crate) mod elections;
pub(crate) mod operator;
#[cfg(any(feature = "dashboard", feature = "top"))]
pub(crate) mod screens;
pub(crate) mod tickets;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use leasehold_proto::recipe::grants::{Names, Primitive};

use self::operator::Sources;
use crate::acl;
use crate::address::Address;
use crate::on_lost::OnLost;
use crate::{duration, exec, watcher};

/// Distributed locks over Redis or Valkey, for programs and shell scripts.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, long_version = VERSION)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run a command while holding a lock
    #[command(after_help = ABOUT)]
    Run(Run),
    /// Run a command in one process of many: the leader
    #[command(after_help = elections::ELECTED)]
    Elect(elections::Elect),
    /// Show who leads
    #[command(after_help = elections::LED)]
    Leader(elections::Leader),
    /// Ask the leader to pass its term on to a candidate
    #[command(after_help = elections::TRANSFERRED)]
    Transfer(elections::Transfer),
    /// Ask the leader to end its term
    #[command(after_help = elections::RESIGNED)]
    Resign(elections::Resign),
    /// Acquire a lock, and print the ticket with which another process releases it
    #[command(after_help = tickets::ACQUIRED)]
    Acquire(tickets::Acquire),
    /// List locks, their holders and waiters
    #[command(after_help = operator::LISTED)]
    List(operator::List),
    /// Show one lock in full
    #[command(after_help = operator::SHOWN)]
    Show(operator::Show),
    /// List the clients that hold and wait
    #[command(after_help = operator::CLIENTS_LISTED)]
    Clients(operator::Clients),
    /// Print a line for each change of locks
    #[command(name = "watch", after_help = operator::WATCHED)]
    Changes(operator::Watch),
    /// Release one hold of a lock
    #[command(after_help = operator::RELEASED)]
    Release(operator::Release),
    /// Repair a damaged lock
    #[command(after_help = operator::REPAIRED)]
    Repair(operator::Repair),
    /// Watch the locks on the terminal
    #[cfg(feature = "top")]
    #[command(after_help = screens::WATCHED)]
    Top(screens::Top),
    /// Serve a page that shows the locks
    #[cfg(feature = "dashboard")]
    #[command(after_help = screens::SERVED)]
    Dashboard(screens::Dashboard),
    /// Check configuration files
    Config(Config),
    /// Print the smallest rights of a server's user
    #[command(after_help = RIGHTS)]
    Acl(Acl),
    /// Examine the servers that keep the locks
    #[command(after_help = EXAMINED)]
    Doctor(Doctor),
    /// Print the completions of a shell
    Completions(operator::Completions),
    /// Print a page of the manual, as roff
    Man(operator::Man),
    #[command(name = exec::VERB, hide = true)]
    Exec(exec::Arguments),
    #[command(name = watcher::VERB, hide = true)]
    Watch,
}

/// The version, what the program can do and with whom it shares locks, for a report of an incident.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\nservers: redis, sentinel, cluster, unix socket, each with TLS (rustls, ring)",
    "\nwire format: that of Redisson 3.24 to 4.7"
);

/// The end of the short help.
pub(crate) const BRIEF: &str = "--help also has the meaning of the words, the exit codes and examples.";

const ABOUT: &str = "\
The lock is renewed while the command runs and released when it ends. Without -n and --wait the wait has no end. With
--wait the server may also come up meanwhile. No shell is involved: write `sh -c '...'` if you need one.

When the lock is lost (the server is gone for longer than the lease, the lock was deleted, --max-hold is over, this
program is stopped or frozen for longer than the lease), the command is stopped. During --grace it still runs, and
another holder may have the lock already; --on-lost kill allows no such time. When this program itself is killed, the
command and its process group are killed too, and the lock is free again after one lease. Background processes that the
command leaves behind when it ends are left alone.

Kinds of lock. All commands and services that share a name must use the same kind. A read-write lock and a semaphore are
refused beside another kind if the state of the server shows it. The others exclude each other and wake each other late:
  (none)        exclusive, no order among the waiters
  --fair        exclusive, in the order of arrival
  --fenced      exclusive, each grant has a number that only grows: LEASEHOLD_TOKEN
  --plain       exclusive, shared with redis-py, redsync, node-redlock and others: the key is NAME, behind the
                key_prefix if there is one, in the same database
  -s, -x        the two sides of a read-write lock: any number of -s at once, or one -x alone
  --slots N     a semaphore: at most N commands at once

DURATION is in seconds (10, 2.5) or has units (30s, 5m, 1h30m).

Configuration, later sources win: defaults, --config files in their order, LEASEHOLD_* variables, the options here.
Services that use the library have the same configuration. Their keys apply here too: `key_prefix`, `timeout`, the terms
of each kind of lock and all others. An unknown key is an error. `leasehold config check` prints the result.

Environment:
  LEASEHOLD_URL  the server: redis://[[user]:password@]host[:port][/db], rediss:// with TLS,
                 redis+sentinel://s1,s2/service, redis+cluster://h1,h2 or unix:///path. The place for a password, which
                 --url would show to every user of this machine.
  LEASEHOLD_*    any other key of the configuration, such as LEASEHOLD_KEY_PREFIX or LEASEHOLD_LOCK__MAX_HOLD
  The command finds the lock's name in LEASEHOLD_NAME, its own entry on the server in LEASEHOLD_OWNER (the permit's id
  with --slots), and with --fenced its number in LEASEHOLD_TOKEN.

Exit codes:
  that of the command, or 128+N when signal N ended it; and
    1  the lock was not acquired (-n, --wait); -E chooses another code
   64  wrong arguments, name, address or configuration
   69  the server cannot be reached or used, or the name belongs to another kind of lock; the command was not run
   71  the command could not be started or supervised
   79  the lock was lost before the command ended (but see --on-lost ignore)
  126  the command cannot be executed
  127  the command was not found
  128+N  signal N came while waiting for the lock; the command was not run

Examples:
  leasehold run nightly-backup -- /usr/local/bin/backup --full   wait without end
  leasehold run -n cron:report -- make report                    do nothing if another host holds the lock
  leasehold run -n --min-hold 1m cron:report -- make report      the same, with clocks up to a minute apart
  leasehold run --wait 5m -E 75 deploy:web -- ./deploy.sh        give up after 5 minutes, with code 75
  leasehold run --max-hold 1h --grace 30s import -- ./import     at most an hour, and 30 s to clean up
  leasehold run --slots 3 thumbnails -- ./render                 three at once over all hosts
  leasehold run --config /etc/orders/leasehold.toml -v job -- ./job.sh

leasehold cannot guarantee that two commands never overlap: a machine that is frozen for longer than the lease loses the
lock without noticing in time. An effect that must never happen twice has to be refused by the resource itself: see
--fenced.";

const CHECKED: &str = "\
Later files win over earlier ones, and LEASEHOLD_* variables over files: LEASEHOLD_TIMEOUT is `timeout`,
LEASEHOLD_LOCK__MAX_HOLD is `lock.max_hold`. Every value is printed as TOML with where it was set, secrets as ***.
The files of passwords that it names are opened, those of certificates are not; no server is connected to.

Exit codes:
   0  the configuration is valid
  64  wrong arguments, or the configuration is not valid: each line on stderr names a key and its file, and what to
      change

Examples:
  leasehold config check /etc/orders/leasehold.toml
  leasehold config check --no-env base.yaml production.yaml";

const RIGHTS: &str = "\
The line gives the user the commands, keys and channels of the chosen primitives and takes all others away.
Run it on every server (ACL SETUSER is not replicated), with a password in place of PASSWORD, then ACL SAVE or
CONFIG REWRITE.

The line covers names that begin with --prefix and have no braces of their own. A prefix may have a hash tag: '{app}:'.
The keys of fenced writes must begin with --prefix too.

Examples:
  leasehold acl --prefix app: --primitives lock,rw
  leasehold acl --prefix app: --cluster
  leasehold acl --prefix app: --primitives lock --sentinel
  leasehold acl --prefix app: --primitives plain --native delifeq
  leasehold acl --prefix app: --operator --release --user operator";

const EXAMINED: &str = "\
Asks each server of the configuration for its settings and its state: a single server, the masters and replicas behind
sentinels, the nodes of a cluster, or the servers of a quorum. Each check says what was found, why it matters for locks,
and what to run. A question that the user may not ask is reported as unknown. `leasehold acl --doctor` prints the rights
for all questions.

Nothing is changed. Acquire and release of a lock, the first of --primitives that is one, are timed on scratch names
PREFIXleasehold:doctor:PID:N, which are deleted again.

Exit codes:
   0  every check passed
   1  a check warns, or could not be made
   2  a check failed, or a server does not answer
  64  wrong arguments, address or configuration
  71  the system refused a resource

Examples:
  LEASEHOLD_URL=redis://redis.example.org leasehold doctor
  leasehold doctor --url redis+sentinel://s1,s2,s3/orders --prefix app: --primitives lock,rw
  leasehold doctor --config /etc/orders/leasehold.toml --json";

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) sources: Sources,

    /// The beginning of the names that the user may lock, and of the scratch names [default: the key_prefix]
    #[arg(long, value_parser = acl::checked_prefix)]
    pub(crate) prefix: Option<String>,

    /// The primitives whose rights are checked, separated by commas [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = acl::parse_primitive)]
    pub(crate) primitives: Vec<&'static Primitive>,

    /// Also check the rights of this user, who is an operator
    #[arg(long, value_name = "USER", value_parser = acl::parse_user)]
    pub(crate) operator: Option<String>,

    #[command(flatten)]
    pub(crate) confirmation: Confirmation,

    /// How long one exchange with a server may take
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::parse_bound)]
    pub(crate) timeout: Duration,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What confirms the calls of a user's clients.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Confirmation {
    /// Replicas confirm the calls of the user's clients
    #[arg(long)]
    pub(crate) confirmed: bool,

    /// Disks confirm the calls of the user's clients, on a server of version 7.2 or later
    #[arg(long)]
    pub(crate) fsync: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Acl {
    /// The beginning of all names; may be repeated. Without it the user may lock every name
    #[arg(long, value_name = "PREFIX", value_parser = acl::parse_prefix)]
    pub(crate) prefix: Vec<Names>,

    /// The primitives, separated by commas [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = acl::parse_primitive)]
    pub(crate) primitives: Vec<&'static Primitive>,

    /// The server is a node of a cluster, of version 7 or later
    #[arg(long, conflicts_with = "sentinel")]
    pub(crate) cluster: bool,

    /// The server is behind sentinels; prints a line for the sentinels too
    #[arg(long)]
    pub(crate) sentinel: bool,

    #[command(flatten)]
    pub(crate) confirmation: Confirmation,

    /// The command with which the server releases a plain lock without a script: delifeq (Valkey 9.0), delex (Redis 8.4,
    /// Valkey 9.2). A server without the command refuses the line
    #[arg(long, value_name = "COMMAND", value_parser = acl::native(), conflicts_with = "operator")]
    pub(crate) native: Option<String>,

    /// The user's URL selects a database above 0
    #[arg(long)]
    pub(crate) select: bool,

    /// Add what `leasehold doctor` asks for
    #[arg(long)]
    pub(crate) doctor: bool,

    /// The user is an operator, who sees all locks, in place of a client
    #[arg(long, conflicts_with = "primitives")]
    pub(crate) operator: bool,

    /// The operator may also release holds
    #[arg(long, requires = "operator")]
    pub(crate) release: bool,

    /// The name of the user
    #[arg(long, value_name = "NAME", default_value = "leasehold", value_parser = acl::parse_user)]
    pub(crate) user: String,
}

#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    pub(crate) verb: ConfigVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Print the merged configuration, or report its errors
    #[command(after_help = CHECKED)]
    Check(Check),
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Leave LEASEHOLD_* variables out
    #[arg(long)]
    pub(crate) no_env: bool,

    /// TOML, YAML or JSON, chosen by its extension
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
#[command(override_usage = "leasehold run [OPTIONS] <NAME> [--] <CMD>...")]
pub(crate) struct Run {
    /// The server [default: configured, else redis://127.0.0.1:6379]
    #[arg(long)]
    pub(crate) url: Option<Address>,

    /// Read this file: TOML, YAML or JSON, chosen by its extension. Later files win
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Vec<PathBuf>,

    /// Trust this CA in place of the system's, for rediss://
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,

    /// Do not wait: give up when another holder has the lock
    #[arg(short = 'n', long = "nonblock", visible_alias = "nb", conflicts_with = "wait")]
    pub(crate) nonblock: bool,

    /// Wait for server and lock this long at most; 0 is the same as -n
    #[arg(short, long, visible_alias = "timeout", value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) wait: Option<Duration>,

    #[command(flatten)]
    pub(crate) kind: KindOptions,

    /// How long the lock stays when this machine dies [default: configured, else 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_lease)]
    pub(crate) lease: Option<Duration>,

    /// Hold the lock this long at most; it is lost then
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_lease)]
    pub(crate) max_hold: Option<Duration>,

    /// Hold the lock this long at least, also when the command ends before
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_bound)]
    pub(crate) min_hold: Option<Duration>,

    /// On loss: `term` (`kill` after --grace), `kill` at once, or `ignore`
    #[arg(long, value_name = "ACTION", value_enum, default_value = "term", hide_possible_values = true)]
    pub(crate) on_lost: OnLost,

    /// Time to clean up, from SIGTERM to SIGKILL
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::parse)]
    pub(crate) grace: Duration,

    /// The exit code when the lock was not acquired
    #[arg(short = 'E', long, value_name = "CODE", default_value = "1")]
    pub(crate) conflict_exit_code: u8,

    /// Say on stderr what happens
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// The lock's name: 1 to 512 bytes, no control characters, braces only as a hash tag: {a}:b
    pub(crate) name: String,

    /// The command and its arguments, behind `--` if one of them is `--` too
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

impl Run {
    /// Refuses a command with a `--` that may have been meant for this program, because what stands before it would be run:
    /// `run NAME stray -- CMD`. `words` is the whole command line.
    pub(crate) fn check(&self, words: &[OsString]) -> Result<(), String> {
        let dashes = words.iter().position(|word| word == "--");
        if dashes.is_none_or(|at| words.len() - at - 1 == self.command.len()) {
            return Ok(());
        }
        let stray = self.command[0].to_string_lossy();
        Err(format!(
            "unexpected {stray:?} before `--`; write `leasehold run NAME -- {stray} ..` if it is the command"
        ))
    }
}

/// The kind of lock: one of these or none.
#[derive(Debug, Default, Args)]
#[group(multiple = false)]
pub(crate) struct KindOptions {
    /// Take the read side of a read-write lock: any number of -s at once
    #[arg(short, long)]
    pub(crate) shared: bool,

    /// Take the write side of a read-write lock, which excludes every other holder
    #[arg(short = 'x', long)]
    pub(crate) exclusive: bool,

    /// Serve waiters in the order of arrival
    #[arg(long)]
    pub(crate) fair: bool,

    /// Give the command a number that only grows from grant to grant
    #[arg(long)]
    pub(crate) fenced: bool,

    /// Take the lock that libraries of every language share: SET NAME VALUE NX PX
    #[arg(long)]
    pub(crate) plain: bool,

    /// Let at most N commands run at once; another N replaces it for all, with a warning
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) slots: Option<u32>,
}
