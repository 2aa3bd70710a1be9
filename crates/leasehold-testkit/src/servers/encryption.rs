//! The settings of a server that also speaks TLS, on a second port.
//!
//! Invariant: the kit itself talks to the plain port, so it depends on no certificate.

#[cfg(feature = "tls")]
use crate::certificates::{Authority, Identity};

/// The certificates of a server that also speaks TLS. Their files must live as long as the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encryption {
    certificate: String,
    key: String,
    authority: String,
    clients: &'static str,
}

#[cfg(feature = "tls")]
impl Encryption {
    /// Shows this certificate and asks clients for none. Connections between servers trust the authority.
    #[must_use]
    pub fn new(authority: &Authority, identity: &Identity) -> Self {
        Self {
            certificate: identity.certificate_file().to_owned(),
            key: identity.key_file().to_owned(),
            authority: authority.file().to_owned(),
            clients: "no",
        }
    }

    /// Trusts the servers of another authority.
    #[must_use]
    pub fn trusting(mut self, authority: &Authority) -> Self {
        authority.file().clone_into(&mut self.authority);
        self
    }

    /// Requires a client certificate of the authority, or accepts one.
    #[must_use]
    pub fn client_certificates(mut self, required: bool) -> Self {
        self.clients = if required { "yes" } else { "optional" };
        self
    }
}

impl Encryption {
    /// Returns the arguments of a server with this TLS port.
    pub(super) fn arguments(&self, port: u16) -> Vec<String> {
        let port = port.to_string();
        let arguments = [
            ["--tls-port", &port],
            ["--tls-cert-file", &self.certificate],
            ["--tls-key-file", &self.key],
            ["--tls-ca-cert-file", &self.authority],
            ["--tls-auth-clients", self.clients],
        ];
        arguments.as_flattened().iter().map(|&word| word.to_owned()).collect()
    }
}
