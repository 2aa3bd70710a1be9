//! The error of connecting.
//!
//! Invariant: no error repeats the password of a URL.

use std::fmt;
use std::io;
use std::time::Duration;

use leasehold_proto::{LeaseError, NameError, Rounded, StoreError};
use leasehold_store::url::UrlError;

use super::answers::answers;
use super::message::{from_cause, message_in_debug};

/// The reason why a client could not connect. Nothing is left behind.
#[non_exhaustive]
pub enum ConnectError {
    /// The URL cannot be used.
    Url(UrlError),
    /// A setting is shorter than 1 ms.
    #[non_exhaustive]
    TooShort {
        /// The name of the setting.
        setting: &'static str,
        /// The value of the setting.
        given: Duration,
    },
    /// The client has settings of TLS, and the URL asks for plain text. Nothing was sent. Write `rediss` in the URL, or leave
    /// the settings out.
    #[non_exhaustive]
    NotEncrypted {
        /// The URL, with its password masked.
        server: String,
    },
    /// The sentinels are asked in plain text, and the server's certificate may have any name. Whoever answers for a sentinel
    /// would choose the server, which gets the password. Nothing was sent. Set `server_name` or `ca_file`, or encrypt the
    /// sentinels.
    #[non_exhaustive]
    UnverifiedServer {
        /// The URL, with its password masked.
        server: String,
    },
    /// The watchdog's lease, or the default lease of a primitive, is outside its bounds.
    Lease(LeaseError),
    /// The key prefix makes every name invalid.
    KeyPrefix(NameError),
    /// The client's name is not 1 to 128 bytes of printable ASCII without spaces.
    ClientName,
    /// A label has no name, a name with an equals sign, or is the fifth one.
    Label,
    /// The client could not connect to the server, or the server refused it.
    #[non_exhaustive]
    Store {
        /// The URL, with its password masked.
        server: String,
        /// The error of the server or of the connection.
        source: StoreError,
    },
    /// The operating system provided no thread or no timer for the client's driver.
    Thread(io::Error),
}

answers! { self: ConnectError =>
    /// Always returns false, since connecting acquires nothing.
    const is_busy = false;
    /// Returns true if the server or the operating system failed.
    const is_unavailable = matches!(self, Self::Store { .. } | Self::Thread(_));
    /// Returns true if the same call may succeed a little later, without any change to the program, its settings or
    /// the server.
    const is_retryable = match self {
        Self::Store { source, .. } => source.kind.is_transient(),
        _ => false,
    };
    /// Always returns false, since nothing is held.
    const is_lost = false;
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(error) => write!(f, "the server's URL cannot be used: {error}"),
            Self::TooShort { setting, given } => {
                write!(f, "the {setting} of {} is below the minimum of 1ms", Rounded::down(*given))
            }
            Self::NotEncrypted { server } => write!(
                f,
                "no connection to {server}: TLS is set, but this URL is not encrypted; write `rediss` in place of `redis`, or \
                 leave TLS out"
            ),
            Self::UnverifiedServer { server } => write!(
                f,
                "no connection to {server}: an attacker could answer for plain-text sentinels and name another \
                 server; set `server_name` or `ca_file`, or encrypt the sentinels"
            ),
            Self::Lease(error) => write!(f, "a default lease cannot be used: {error}"),
            Self::KeyPrefix(error) => write!(f, "the key prefix cannot be used: {error}"),
            Self::ClientName => {
                f.write_str("the client's name must be 1 to 128 printable ASCII characters without spaces")
            }
            Self::Label => f.write_str("a client has at most four labels, each with a name without `=`"),
            Self::Store { server, source } => write!(f, "no connection to {server}: {}", source.reason()),
            Self::Thread(error) => write!(f, "the client's thread did not start: {error}"),
        }
    }
}

message_in_debug!(enum ConnectError {
    Url(error),
    TooShort { setting, given },
    NotEncrypted { server },
    UnverifiedServer { server },
    Lease(error),
    KeyPrefix(error),
    ClientName,
    Label,
    Store { server, source },
    Thread(error),
});

from_cause!(ConnectError { Lease(LeaseError) });
