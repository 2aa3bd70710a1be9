//! A verifier of servers that show one of the certificates of `ca_file`, or one that such a certificate has issued.
//!
//! Invariant: a certificate that is in the file is trusted as it is, whatever its names and its dates, because the user has
//! named exactly this one. The peer must still own its key.
//!
//! # How it works
//! `openssl req -x509` makes a certificate that signs itself and says that it is a CA's. The rules of the web refuse it as
//! that of a server, and most of these have no name that could be verified either.

use std::sync::Arc;

use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{DigitallySignedStruct, Error, SignatureScheme};

/// Accepts these certificates, and those that they have issued.
#[derive(Debug)]
pub(super) struct NamedCertificates {
    certificates: Vec<CertificateDer<'static>>,
    issued: Arc<WebPkiServerVerifier>,
}

impl NamedCertificates {
    pub(super) const fn new(
        certificates: Vec<CertificateDer<'static>>,
        issued: Arc<WebPkiServerVerifier>,
    ) -> Self {
        Self { certificates, issued }
    }
}

impl ServerCertVerifier for NamedCertificates {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.certificates.contains(end_entity) {
            return Ok(ServerCertVerified::assertion());
        }
        self.issued.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.issued.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.issued.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.issued.supported_verify_schemes()
    }
}
