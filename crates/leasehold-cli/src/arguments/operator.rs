//! The arguments of the verbs that show locks to operators.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use leasehold_proto::operate::Kind;

use crate::address::Address;
use crate::duration;
use crate::fleet::{Query, ScanRule, Sort};
use crate::glob::Glob;
use crate::table::Color;

/// The sources of the configuration of verbs that name servers.
#[derive(Debug, Args)]
pub(crate) struct Sources {
    /// The servers [default: configured, else redis://127.0.0.1:6379]
    #[arg(long)]
    pub(crate) url: Option<Address>,

    /// Read this file: TOML, YAML or JSON, chosen by its extension. Later files win
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Vec<PathBuf>,

    /// Trust this CA in place of the system's, for rediss://
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
}

/// The servers, as each verb names them.
#[derive(Debug, Args)]
pub(crate) struct Servers {
    #[command(flatten)]
    pub(crate) sources: Sources,

    /// How long one exchange with a server may take
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::parse_bound)]
    pub(crate) timeout: Duration,
}

/// The form of the output.
#[derive(Debug, Args)]
pub(crate) struct Output {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Colors: `auto`, on a terminal and without NO_COLOR, `always` or `never`
    #[arg(long, value_name = "WHEN", value_enum, default_value = "auto", hide_possible_values = true)]
    pub(crate) color: Color,
}

pub(crate) const LISTED: &str = "\
The table has three sources: visible clients, which say what they hold and wait for; the channels that waiters listen
to, which also show Redisson's waiters; and a scan of all keys, which shows what Redisson and dead clients hold.
Databases of more than 200,000 keys are scanned only with --scan. The last line says what could not be seen.

HELD and LONGEST come from the clients. Redisson's locks do not say since when they are held.

Exit codes:
   0  listed
   1  --warnings, and there are warnings
   3  listed, and something could not be seen
  64  wrong arguments, address or configuration
  69  a server cannot be reached, or refuses a question

Examples:
  leasehold list                               the longest waits first
  leasehold list --match 'order:*' --held-for 5m
  leasehold list --scan --pace 2% --all --json";

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) servers: Servers,

    /// Names: `*` is any text, `?` is one letter
    #[arg(long = "match", value_name = "PATTERN")]
    pub(crate) names: Option<Glob>,

    /// The kind, such as `lock` or `read-write lock`
    #[arg(long, value_name = "KIND", value_parser = parse_kind)]
    pub(crate) kind: Option<Kind>,

    /// Objects that this client holds or waits for: a part of its id, name, host or process id
    #[arg(long, value_name = "TEXT")]
    pub(crate) client: Option<String>,

    /// Held for at least this time
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) held_for: Option<Duration>,

    /// Waited for at least this time
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) waited_for: Option<Duration>,

    /// The order: `wait`, `held` or `name`
    #[arg(long, value_name = "ORDER", value_enum, default_value = "wait", hide_possible_values = true)]
    pub(crate) sort: Sort,

    /// The most objects
    #[arg(long, value_name = "N", default_value = "50", conflicts_with = "all")]
    pub(crate) limit: usize,

    /// All objects
    #[arg(long)]
    pub(crate) all: bool,

    /// Scan all keys, also of large databases
    #[arg(long, conflicts_with = "no_scan")]
    pub(crate) scan: bool,

    /// Scan no keys
    #[arg(long)]
    pub(crate) no_scan: bool,

    /// The share of a server's time that a scan takes
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = parse_pace)]
    pub(crate) pace: f64,

    /// Only objects with warnings
    #[arg(long)]
    pub(crate) warnings: bool,

    #[command(flatten)]
    pub(crate) output: Output,
}

impl List {
    pub(crate) fn query(&self) -> Query {
        Query {
            names: self.names.clone(),
            kind: self.kind,
            client: self.client.clone(),
            held_for: self.held_for,
            waited_for: self.waited_for,
            sort: self.sort,
            limit: (!self.all).then_some(self.limit),
            scan: match (self.scan, self.no_scan) {
                (true, _) => ScanRule::Always,
                (_, true) => ScanRule::Never,
                _ => ScanRule::Small,
            },
            pace: self.pace,
            warnings: self.warnings,
            has_progress: true,
        }
    }
}

pub(crate) const SHOWN: &str = "\
Shows everything that the servers and the clients know about one name: who holds it and since when, who waits, what it
is for, and when the holder would notice a release.

Exit codes:
   0  shown
   1  the name is free and has no waiters
  64  wrong arguments, address or configuration
  69  a server cannot be reached, or refuses a question

Examples:
  leasehold show order:42
  leasehold show order:42 --json
  leasehold show nightly --foreign             a lock of redis-py, redsync or another library";

#[derive(Debug, Args)]
pub(crate) struct Show {
    #[command(flatten)]
    pub(crate) servers: Servers,

    /// The name, without the key prefix
    pub(crate) name: String,

    /// Take a string of another library for a lock, and show it as one
    #[arg(long)]
    pub(crate) foreign: bool,

    #[command(flatten)]
    pub(crate) output: Output,
}

pub(crate) const CLIENTS_LISTED: &str = "\
The clients that are visible: those that have waited, renewed a hold or taken a lease of 10 s or more. A client that does
not answer has vanished or is frozen. Its card stays for up to an hour.

Exit codes:
   0  all have answered
   3  a client is silent
  64  wrong arguments, address or configuration
  69  a server cannot be reached, or refuses a question";

#[derive(Debug, Args)]
pub(crate) struct Clients {
    #[command(flatten)]
    pub(crate) servers: Servers,

    #[command(flatten)]
    pub(crate) output: Output,
}

pub(crate) const WATCHED: &str = "\
Prints a line for each change between two looks: taken, passed on, free, and the number of waiters. A change that is
undone between two looks is not seen. Watching does not slow the locks down.

Exit codes:
   0  ended by SIGINT or SIGTERM, or the reader has closed the output
  64  wrong arguments, address or configuration
  69  a server cannot be reached, or refuses a question

Examples:
  leasehold watch order:42 order:43
  leasehold watch --match 'order:*' --every 2s --json";

#[derive(Debug, Args)]
pub(crate) struct Watch {
    #[command(flatten)]
    pub(crate) servers: Servers,

    /// The names, without the key prefix
    #[arg(required_unless_present = "pattern", value_name = "NAME")]
    pub(crate) names: Vec<String>,

    /// Names: `*` is any text, `?` is one letter
    #[arg(long = "match", value_name = "PATTERN", conflicts_with = "names")]
    pub(crate) pattern: Option<Glob>,

    /// The time between two looks
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = duration::parse_bound)]
    pub(crate) every: Duration,

    /// Print one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) const RELEASED: &str = "\
Shows the hold, asks you to type the name, then releases this hold and no other, and wakes a waiter. The holder is not
asked. It notices at its next renewal, so until then two processes may act under the lock, unless the resource checks
fencing tokens. A semaphore's permits are released one acquisition, or one permit that expires, at a time. A plain lock
is released by the value that was shown. A string of another library may not be a lock, so it needs --foreign.

Exit codes:
   0  released
   1  it was free, or nothing was left for the ticket
   2  another holder has it meanwhile, the owner of --owner does not hold it, or nobody heard --ask
   3  declined: another name was typed, or the input is no terminal and --yes is missing
  64  wrong arguments, address or configuration, or an object without holders
  69  a server cannot be reached, or refuses

Examples:
  leasehold release order:42
  leasehold release order:42 --owner 7f2a9c1e-1f0e-4b6a-9c55-0a3a54d1c001:57 --yes
  leasehold release order:42 --ask --by 'Ann, for the deploy'
  leasehold release order:42 --dry-run
  leasehold release --ticket - </run/deploy.ticket";

#[derive(Debug, Args)]
pub(crate) struct Release {
    #[command(flatten)]
    pub(crate) servers: Servers,

    /// The name, without the key prefix
    #[arg(required_unless_present = "ticket", default_value = "", hide_default_value = true)]
    pub(crate) name: String,

    /// Release what `leasehold acquire` has acquired, without a look: its ticket, or `-` for stdin
    #[arg(long, value_name = "TICKET", conflicts_with_all = ["name", "owner", "foreign", "ask", "yes", "dry_run", "json"])]
    pub(crate) ticket: Option<String>,

    /// The owner whose hold to release, or the id of a permit. Needed if there are several
    #[arg(long)]
    pub(crate) owner: Option<String>,

    /// Take a string of another library for a lock, and release it
    #[arg(long)]
    pub(crate) foreign: bool,

    /// Ask the holder to give it back, and release nothing. Only a program of leasehold hears it, and it decides
    #[arg(long, conflicts_with_all = ["yes", "foreign", "dry_run"])]
    pub(crate) ask: bool,

    /// Who asks, as the holder is told
    #[arg(long, value_name = "TEXT", requires = "ask", default_value = "an operator")]
    pub(crate) by: String,

    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// Show the hold, and do not release it, also with --yes
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) const REPAIRED: &str = "\
A lock without an expiry blocks until somebody frees it. Neither leasehold nor Redisson leaves one behind. The command
looks at it twice, a lease apart. If the lock has not changed and no process renews it, it gets a lease and ends with
it. A string of another library may lack an expiry on purpose, as redis-py's default does, so it needs --foreign.

Exit codes:
   0  repaired
   1  there is nothing to repair
   2  the lock has changed between the two looks
   3  declined: another name was typed, or the input is no terminal and --yes is missing
  64  wrong arguments, address or configuration
  69  a server cannot be reached, or refuses

Examples:
  leasehold repair order:42 --fix no-expiry";

#[derive(Debug, Args)]
pub(crate) struct Repair {
    #[command(flatten)]
    pub(crate) servers: Servers,

    /// The name, without the key prefix
    pub(crate) name: String,

    /// The damage: `no-expiry`
    #[arg(long, value_name = "DAMAGE", value_enum, hide_possible_values = true)]
    pub(crate) fix: Damage,

    /// The time between the two looks, and the lease that the lock gets
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse_lease)]
    pub(crate) lease: Duration,

    /// Take a string of another library for a lock, and give it the lease
    #[arg(long)]
    pub(crate) foreign: bool,

    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// What can be repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Damage {
    /// A lock without an expiry.
    NoExpiry,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The verb, or none for the command itself
    pub(crate) verb: Option<String>,
}

fn parse_kind(text: &str) -> Result<Kind, String> {
    text.parse().map_err(|()| {
        let names: Vec<_> = Kind::names().collect();
        format!("no such kind; the kinds are {}", names.join(", "))
    })
}

/// Reads a share in percent.
fn parse_pace(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>().ok();
    let percent = percent.filter(|percent| (0.1..=100.0).contains(percent));
    percent.map(|percent| percent / 100.0).ok_or_else(|| "a share is between 0.1% and 100%".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_a_share_in_percent() {
        assert_eq!((parse_pace("5%"), parse_pace("100")), (Ok(0.05), Ok(1.0)));
        for bad in ["0", "101%", "fast", "", "nan", "-5%"] {
            assert!(parse_pace(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_kind_has_its_name() {
        assert_eq!(parse_kind("fair lock"), Ok(Kind::Fair));
        assert!(parse_kind("mutex").unwrap_err().contains("read-write lock"));
    }
}
