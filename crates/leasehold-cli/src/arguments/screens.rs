//! The command line of `leasehold top` and `leasehold dashboard`.

#[cfg(feature = "dashboard")]
use std::path::PathBuf;

use clap::Args;

use super::operator::Servers;
#[cfg(feature = "dashboard")]
use crate::listen::Listen;

/// The options of `leasehold top`.
#[cfg(feature = "top")]
#[derive(Debug, Args)]
pub(crate) struct Top {
    #[command(flatten)]
    pub(crate) servers: Servers,

    /// Let the key r release the selected hold
    #[arg(long)]
    pub(crate) allow_release: bool,
}

#[cfg(feature = "top")]
pub(crate) const WATCHED: &str = "\
The locks that somebody waits for come first, then the longest holds. The screen asks every 2 s and changes nothing. Nobody
subscribes to a lock, so a watched lock is as fast as any other.

Keys: j k g G and arrows move, Enter shows everything about a lock, / filters, s sorts, w shows only warnings, c the clients,
Space freezes, + and - change the pace, ? shows the keys, q quits. r releases a hold, only with --allow-release.

Exit codes:
   0  ended by q or by a signal
  64  wrong arguments, or no terminal: use `leasehold list`
  69  the server cannot be reached or used

Examples:
  leasehold top --url redis://redis.example.org
  leasehold top --config /etc/orders/leasehold.toml --allow-release";

/// The options of `leasehold dashboard`.
#[cfg(feature = "dashboard")]
#[derive(Debug, Args)]
pub(crate) struct Dashboard {
    #[command(flatten)]
    pub(crate) servers: Servers,

    /// Where to listen: an address and a port, or unix: and the path of a socket
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8300")]
    pub(crate) listen: Listen,

    /// Let viewers release holds
    #[arg(long)]
    pub(crate) allow_release: bool,

    /// A host, with its port unless it is 443, under which a proxy serves the page; may be repeated
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,

    /// A proxy with TLS is in front, so any address may be listened on
    #[arg(long)]
    pub(crate) behind_proxy: bool,

    /// Read the token from this file instead of making one for each start
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// Serve GET /metrics for Prometheus, with the same token
    #[arg(long)]
    pub(crate) metrics: bool,
}

#[cfg(feature = "dashboard")]
pub(crate) const SERVED: &str = "\
Prints the URL of a page that shows who holds which lock, since when, and who waits. The page is read-only unless
--allow-release is given. It shows nothing without the token, which is new with each start and is in the part of the URL that
browsers send to no server. The servers are asked every 2 s while anybody looks.

The page has no TLS of its own. Listen on loopback, reach it through `ssh -L 8300:127.0.0.1:8300`, or put a proxy with TLS in
front and say --behind-proxy and --allow-host.

Exit codes:
   0  ended by a signal
  64  wrong arguments, or a file of a token that cannot be used
  69  the server cannot be reached or used
  71  the address cannot be listened on

Examples:
  leasehold dashboard --url redis://redis.example.org
  leasehold dashboard --listen unix:/run/leasehold/page.sock --allow-host locks.example.org --metrics";
