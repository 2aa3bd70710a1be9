//! The options of encrypted connections.
//!
//! Invariant: the options hold file names or file contents, never anything parsed from them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::pem::Pem;

/// The options of encrypted connections, for the URLs that begin with `rediss` or `valkeys`.
///
/// Without options, a client trusts the certificates that the operating system trusts, and has no certificate itself.
/// The server's certificate must name the host to which the client connects.
///
/// All files are in PEM, and each connection reads them again. Replace a file by renaming a new one over it, so that no
/// connection reads half of it. Connections that are open go on with what they have.
///
/// # Examples
/// ```
/// use leasehold_store::redis::Tls;
///
/// let tls = Tls::new()
///     .ca_file("/etc/redis/ca.pem")
///     .client_files("/etc/redis/app.pem", "/etc/redis/app.key");
/// ```
#[derive(Clone, Default)]
pub struct Tls {
    pub(super) trust: Trust,
    pub(super) client: Option<(Pem, Pem)>,
    pub(super) server_name: Option<Arc<str>>,
    pub(super) provider: TlsProvider,
}

/// The certificates of servers that a client accepts.
#[derive(Clone, Default)]
pub(super) enum Trust {
    /// Those that the operating system trusts.
    #[default]
    System,
    /// Those whose chain ends in one of these certificates.
    Only(Pem),
    /// All.
    Any,
}

/// The implementation of the cryptography.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsProvider {
    /// The crate `ring`. The default if the feature `tls-ring` is on.
    #[cfg(feature = "tls-ring")]
    Ring,
    /// The crate `aws-lc-rs`. The default if the feature `tls-ring` is off.
    #[cfg(feature = "tls-aws-lc")]
    AwsLc,
}

impl Default for TlsProvider {
    #[cfg(feature = "tls-ring")]
    fn default() -> Self {
        Self::Ring
    }

    #[cfg(not(feature = "tls-ring"))]
    fn default() -> Self {
        Self::AwsLc
    }
}

impl Tls {
    /// Returns the options of a client that trusts what the operating system trusts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts only servers whose certificate is in this file, or was issued by a certificate of this file, and no longer
    /// those that the operating system trusts. A server's own certificate in the file, such as `openssl req -x509` makes,
    /// is a pin: exactly this certificate is trusted, whatever its names and its dates.
    #[must_use]
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.trust = Trust::Only(Pem::File(path.into()));
        self
    }

    /// Trusts only servers whose certificate is in this PEM text, or was issued by a certificate of it, as
    /// [`ca_file`](Self::ca_file) does.
    #[must_use]
    pub fn ca_pem(mut self, certificates: impl Into<Vec<u8>>) -> Self {
        self.trust = Trust::Only(Pem::Text(certificates.into().into()));
        self
    }

    /// Shows the server a certificate: the file of the client's certificate, perhaps with the certificates between it and
    /// the CA behind it, and the file of its private key, which must not be encrypted.
    #[must_use]
    pub fn client_files(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.client = Some((Pem::File(certificate.into()), Pem::File(key.into())));
        self
    }

    /// Expects this name in the certificates of all servers, in place of the host of each connection. A cluster or a
    /// Sentinel that announces addresses for which no certificate is made needs it.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Returns true if the name of the server in a certificate is all that tells it from other servers.
    pub(crate) const fn accepts_any_name(&self) -> bool {
        matches!(self.trust, Trust::System) && self.server_name.is_none()
    }

    /// Chooses the implementation of the cryptography, in a build that has both.
    #[must_use]
    pub const fn provider(mut self, provider: TlsProvider) -> Self {
        self.provider = provider;
        self
    }

    /// Accepts any certificate, so that anyone between the client and the server can read and change what they send,
    /// the password too. It is for tests alone, and no URL and no configuration can set it.
    #[must_use]
    pub fn danger_accept_any_certificate(mut self) -> Self {
        self.trust = Trust::Any;
        self
    }
}

/// The encryption of the connections to sentinels.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum SentinelTls {
    /// As to the servers: the URL says whether, and the same certificates and rules apply.
    #[default]
    AsServers,
    /// None, even if the connections to the servers are encrypted.
    PlainText,
    /// With these certificates and rules, even if the connections to the servers are not encrypted.
    Own(Tls),
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trust, client, server_name, provider } = self;
        let mut shown = f.debug_struct("Tls");
        match trust {
            Trust::System => shown.field("trust", &"system"),
            Trust::Only(pem) => shown.field("ca", pem),
            Trust::Any => shown.field("trust", &"any certificate"),
        };
        shown.field("client", client).field("server_name", server_name).field("provider", provider).finish()
    }
}
