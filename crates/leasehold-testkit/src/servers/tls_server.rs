//! A private server that also speaks TLS on a second port.
//!
//! Invariant: the kit itself talks to the plain port, so it depends on no certificate.

use std::ops::Deref;

use super::port::free_port;
use super::process::Form;
use super::server::RedisServer;
use crate::certificates::{Authority, Identity};

/// The number of port pairs to try before giving up.
const PORTS_TRIED: u32 = 20;

/// A server with a plain port and a TLS port.
#[derive(Debug)]
pub struct TlsServer {
    server: RedisServer,
    tls_port: u16,
}

impl TlsServer {
    /// Starts a server that shows this certificate, and that trusts the client certificates of the authority.
    ///
    /// # Panics
    /// As [`RedisServer::start`].
    #[must_use]
    #[track_caller]
    pub fn start(authority: &Authority, identity: &Identity, needs_client_certificate: bool) -> Self {
        let needs = if needs_client_certificate { "yes" } else { "optional" };
        for _ in 0..PORTS_TRIED {
            let tls_port = free_port();
            let port = tls_port.to_string();
            let arguments = [
                ["--tls-port", &port],
                ["--tls-cert-file", identity.certificate_file()],
                ["--tls-key-file", identity.key_file()],
                ["--tls-ca-cert-file", authority.file()],
                ["--tls-auth-clients", needs],
            ];
            if let Some(server) = RedisServer::try_start(arguments.as_flattened(), Form::Arguments) {
                return Self { server, tls_port };
            }
        }
        panic!("{PORTS_TRIED} pairs of ports were taken by others before the server could bind them");
    }

    /// Returns the port that speaks TLS.
    #[must_use]
    pub const fn tls_port(&self) -> u16 {
        self.tls_port
    }

    /// Returns the URL over TLS, by a host name.
    #[must_use]
    pub fn tls_url(&self) -> String {
        format!("rediss://localhost:{}", self.tls_port)
    }

    /// Shows another certificate from the next connection on.
    #[track_caller]
    pub fn show(&self, identity: &Identity) {
        let (certificate, key) = (identity.certificate_file(), identity.key_file());
        let set = ["CONFIG", "SET", "tls-cert-file", certificate, "tls-key-file", key];
        assert_eq!(self.server.cli(&set), "OK");
    }
}

impl Deref for TlsServer {
    type Target = RedisServer;

    fn deref(&self) -> &RedisServer {
        &self.server
    }
}
