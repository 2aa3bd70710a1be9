//! A private server that also speaks TLS on a second port.

use std::ops::Deref;

use super::encryption::Encryption;
use super::server::RedisServer;
use crate::certificates::{Authority, Identity};

/// A server with a plain port and a TLS port.
#[derive(Debug)]
pub struct TlsServer(RedisServer);

impl TlsServer {
    /// Starts a server that shows this certificate, and that trusts the client certificates of the authority.
    ///
    /// # Panics
    /// As [`RedisServer::start`].
    #[must_use]
    #[track_caller]
    pub fn start(authority: &Authority, identity: &Identity, needs_client_certificate: bool) -> Self {
        let encryption = Encryption::new(authority, identity).client_certificates(needs_client_certificate);
        Self(RedisServer::encrypted(&[], &encryption))
    }

    /// Returns the port that speaks TLS.
    #[must_use]
    pub fn tls_port(&self) -> u16 {
        self.0.announced_port()
    }

    /// Returns the URL over TLS, by a host name.
    #[must_use]
    pub fn tls_url(&self) -> String {
        format!("rediss://localhost:{}", self.tls_port())
    }

    /// Shows another certificate from the next connection on.
    #[track_caller]
    pub fn show(&self, identity: &Identity) {
        let (certificate, key) = (identity.certificate_file(), identity.key_file());
        let set = ["CONFIG", "SET", "tls-cert-file", certificate, "tls-key-file", key];
        assert_eq!(self.0.cli(&set), "OK");
    }
}

impl Deref for TlsServer {
    type Target = RedisServer;

    fn deref(&self) -> &RedisServer {
        &self.0
    }
}
