//! The login by a file and the encryption of a client.
//!
//! Invariant: a URL has neither. Each connection reads the files again.

use super::schema::Settings;
#[cfg(feature = "redis")]
use super::value::with;
use crate::client::ClientBuilder;
#[cfg(feature = "redis")]
use crate::client::connect::CredentialsFile;
#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
use crate::client::connect::Tls;

impl Settings {
    /// Sets the login by a file, and the encryption, of the section that names the servers.
    pub(super) fn secured(&self, builder: ClientBuilder) -> ClientBuilder {
        #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
        let builder = builder.tls(self.tls());
        #[cfg(feature = "redis")]
        let builder = with(builder, self.credentials_file(), ClientBuilder::credentials);
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
        let (user, file) = logins.into_iter().find_map(|(user, file)| Some((user, file.as_ref()?)))?;
        Some(with(CredentialsFile::new(file), user.as_deref(), CredentialsFile::user))
    }

    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    pub(super) fn tls(&self) -> Tls {
        let Self { standalone, sentinel, cluster, quorum, .. } = self;
        let sections = [&standalone.tls, &sentinel.tls, &cluster.tls, &quorum.tls];
        // At most one section is set.
        sections.into_iter().fold(Tls::new(), |tls, section| {
            let tls = with(tls, section.ca_file.as_ref(), Tls::ca_file);
            let files = section.certificate_file.as_ref().zip(section.key_file.as_ref());
            let tls = with(tls, files, |tls, (certificate, key)| tls.client_files(certificate, key));
            with(tls, section.server_name.as_deref(), Tls::server_name)
        })
    }
}
