//! The password file and the TLS files of a client.
//!
//! Invariant: no URL contains these settings. Each new connection reads the files again.

#[cfg(feature = "redis")]
use std::path::PathBuf;

use leasehold_store::url::Server;

#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
use super::schema;
#[cfg(feature = "redis")]
use super::schema::Sentinel;
use super::schema::Settings;
#[cfg(feature = "redis")]
use super::value::with;
use crate::client::ClientBuilder;
#[cfg(feature = "redis")]
use crate::client::connect::CredentialsFile;
#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
use crate::client::connect::{SentinelTls, Tls};

impl Settings {
    /// Sets the file login and the encryption of the servers' section, for a client of this server.
    #[cfg_attr(
        not(any(feature = "tls-ring", feature = "tls-aws-lc")),
        expect(unused_variables, reason = "this build has no encryption")
    )]
    pub(super) fn secured(&self, builder: ClientBuilder, server: &Server) -> ClientBuilder {
        // Some servers of a quorum may be encrypted.
        #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
        let builder = if server.is_encrypted() { builder.tls(self.tls()) } else { builder };
        #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
        let builder = builder.sentinel_tls(self.sentinel_tls());
        #[cfg(feature = "redis")]
        let builder = with(builder, self.credentials_file(), ClientBuilder::credentials);
        #[cfg(feature = "redis")]
        let builder = with(builder, self.sentinel_credentials_file(), ClientBuilder::sentinel_credentials);
        builder
    }

    #[cfg(feature = "redis")]
    pub(super) fn credentials_file(&self) -> Option<CredentialsFile> {
        let Self { standalone, sentinel, cluster, quorum, .. } = self;
        let logins = [
            (&standalone.user, &standalone.password_file),
            (&sentinel.user, &sentinel.password_file),
            (&cluster.user, &cluster.password_file),
            (&quorum.user, &quorum.password_file),
        ];
        logins.into_iter().find_map(|(user, file)| credentials_file(user.as_deref(), file.as_ref()))
    }

    #[cfg(feature = "redis")]
    pub(super) fn sentinel_credentials_file(&self) -> Option<CredentialsFile> {
        let Sentinel { sentinel_user, sentinel_password_file, .. } = &self.sentinel;
        credentials_file(sentinel_user.as_deref(), sentinel_password_file.as_ref())
    }

    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    pub(super) fn tls(&self) -> Tls {
        let Self { tls, standalone, sentinel, cluster, quorum, .. } = self;
        let sections = [tls, &standalone.tls, &sentinel.tls, &cluster.tls, &quorum.tls];
        // At most one section is set.
        sections.into_iter().fold(Tls::new(), add)
    }

    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    pub(super) fn sentinel_tls(&self) -> SentinelTls {
        let section = &self.sentinel.sentinel_tls;
        match section.enabled {
            Some(false) => SentinelTls::PlainText,
            None if *section == schema::Tls::default() => SentinelTls::AsServers,
            _ => SentinelTls::Own(add(Tls::new(), section)),
        }
    }
}

#[cfg(feature = "redis")]
fn credentials_file(user: Option<&str>, file: Option<&PathBuf>) -> Option<CredentialsFile> {
    Some(with(CredentialsFile::new(file?), user, CredentialsFile::user))
}

/// Adds what a section sets.
#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
fn add(tls: Tls, section: &schema::Tls) -> Tls {
    let tls = with(tls, section.ca_file.as_ref(), Tls::ca_file);
    let files = section.certificate_file.as_ref().zip(section.key_file.as_ref());
    let tls = with(tls, files, |tls, (certificate, key)| tls.client_files(certificate, key));
    with(tls, section.server_name.as_deref(), Tls::server_name)
}
