//! The address at which the page is served: a port of this machine or a Unix socket.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err("the path of the socket is missing".to_owned()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp).map_err(|_| {
                "an address and a port such as 127.0.0.1:8300, or unix: and the path of a socket".to_owned()
            }),
        }
    }
}

impl Listen {
    /// Returns true if only programs of this machine reach it.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_socket_of_this_machine_or_named_as_another() {
        let parsed = |text: &str| text.parse::<Listen>();
        assert!(parsed("127.0.0.1:8300").unwrap().is_local() && parsed("[::1]:1").unwrap().is_local());
        assert!(parsed("unix:/run/locks.sock").unwrap().is_local());
        assert!(!parsed("0.0.0.0:8300").unwrap().is_local() && !parsed("10.0.0.1:1").unwrap().is_local());
        for wrong in ["", "unix:", "localhost", "8300", "127.0.0.1"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
