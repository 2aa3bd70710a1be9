//! Turns the TLS options into the certificates, keys and rules of one handshake.
//!
//! Invariant: a certificate and its key belong together. A rotation renames two files one after the other, so both are
//! read again until neither has changed in between.

use std::sync::Arc;

use rustls_platform_verifier::Verifier;
use tokio_rustls::rustls::client::danger::ServerCertVerifier;
use tokio_rustls::rustls::client::{Resumption, WebPkiServerVerifier};
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::options::{Tls, TlsProvider, Trust};
use super::pem::Pem;
use super::verifier::Accepting;
use crate::redis::tls_fault::TlsFault;

/// How often a certificate and its key are read until two readings are equal. A rotation takes two renames, so they can
/// differ twice, and the fourth reading equals the third.
const READINGS: usize = 4;
/// How errors name the client's certificate, its key and the trusted CA.
const CERTIFICATE: &str = "client's certificate";
const KEY: &str = "client's key";
const CA: &str = "CA";

impl TlsProvider {
    /// Returns the implementation. The default of the process is neither used nor set.
    fn implementation(self) -> Arc<CryptoProvider> {
        use tokio_rustls::rustls::crypto;
        Arc::new(match self {
            #[cfg(feature = "tls-ring")]
            Self::Ring => crypto::ring::default_provider(),
            #[cfg(feature = "tls-aws-lc")]
            Self::AwsLc => crypto::aws_lc_rs::default_provider(),
        })
    }
}

impl Tls {
    /// Reads all files, and returns the configuration of a handshake. It blocks the thread for the time of the reads.
    pub(super) fn configuration(&self) -> Result<ClientConfig, TlsFault> {
        let provider = self.provider.implementation();
        let verifier = self.verifier(&provider)?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsFault::Handshake(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut configuration = match &self.client {
            None => builder.with_no_client_auth(),
            Some(pems) => {
                let (certificates, key) = identity(pems)?;
                builder.with_client_auth_cert(certificates, key).map_err(|error| {
                    pems.1.unusable(KEY, format!("it does not belong to the certificate: {error}"))
                })?
            }
        };
        // Each connection has a configuration of its own, so no session would be found again.
        configuration.resumption = Resumption::disabled();
        Ok(configuration)
    }

    fn verifier(&self, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, TlsFault> {
        let provider = Arc::clone(provider);
        match &self.trust {
            Trust::System => {
                let verifier =
                    Verifier::new(provider).map_err(|error| TlsFault::System(error.to_string()))?;
                Ok(Arc::new(verifier))
            }
            Trust::Any => Ok(Arc::new(Accepting::any(&provider))),
            Trust::Only(pem) => {
                let text = pem.read(CA)?;
                let mut roots = RootCertStore::empty();
                let certificates = pem.certificates(CA, &text)?;
                for certificate in certificates.clone() {
                    roots.add(certificate).map_err(|error| pem.unusable(CA, error.to_string()))?;
                }
                let verifier =
                    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                        .build()
                        .map_err(|error| pem.unusable(CA, error.to_string()))?;
                Ok(Arc::new(Accepting::named(certificates, verifier, &provider)))
            }
        }
    }
}

/// Reads the client's certificate and its key.
fn identity(
    (certificate, key): &(Pem, Pem),
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsFault> {
    let mut texts = (certificate.read(CERTIFICATE)?, key.read(KEY)?);
    for _ in 1..READINGS {
        let again = (certificate.read(CERTIFICATE)?, key.read(KEY)?);
        if std::mem::replace(&mut texts, again) == texts {
            break;
        }
    }
    let certificates = certificate.certificates(CERTIFICATE, &texts.0)?;
    let key = PrivateKeyDer::from_pem_slice(&texts.1)
        .map_err(|_| key.unusable(KEY, "it contains no PEM private key, or only an encrypted one"))?;
    Ok((certificates, key))
}
