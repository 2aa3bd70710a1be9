//! Verifies server certificates in the cases that the web's rules do not cover.
//!
//! Invariant: the peer must own the key of the certificate that it shows, whichever certificates are accepted, because a
//! handshake without that proof would not be TLS.
//!
//! # How it works
//! A certificate in `ca_file` is trusted as it is, whatever its names and dates, because the user chose exactly this
//! one. `openssl req -x509` makes a self-signed certificate that calls itself a CA. The web's rules refuse such a
//! certificate for a server, and most of them contain no name to verify either.

use std::sync::Arc;

use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{DigitallySignedStruct, Error, SignatureScheme};

/// Accepts the certificates that the options name.
#[derive(Debug)]
pub(super) struct Accepting {
    accepts: Accepts,
    algorithms: WebPkiSupportedAlgorithms,
}

#[derive(Debug)]
enum Accepts {
    /// Every certificate.
    Any,
    /// These certificates, and those that they have issued by the rules of the web.
    Named(Vec<CertificateDer<'static>>, Arc<WebPkiServerVerifier>),
}

impl Accepting {
    pub(super) const fn any(provider: &CryptoProvider) -> Self {
        Self { accepts: Accepts::Any, algorithms: provider.signature_verification_algorithms }
    }

    pub(super) const fn named(
        certificates: Vec<CertificateDer<'static>>,
        issued: Arc<WebPkiServerVerifier>,
        provider: &CryptoProvider,
    ) -> Self {
        let accepts = Accepts::Named(certificates, issued);
        Self { accepts, algorithms: provider.signature_verification_algorithms }
    }
}

impl ServerCertVerifier for Accepting {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.accepts {
            Accepts::Named(certificates, issued) if !certificates.contains(end_entity) => {
                issued.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            }
            Accepts::Any | Accepts::Named(..) => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
