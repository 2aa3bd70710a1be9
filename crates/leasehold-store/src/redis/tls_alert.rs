//! Explains the TLS library's errors, and says what to do about them.
//!
//! Invariant: no text repeats bytes of the peer, such as the names in its certificate.

use std::io;

use tokio_rustls::rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

use super::tls_fault::TlsFault;

/// Explains the error of a handshake. An error of the transport stays what it is.
pub(super) fn explain(error: io::Error) -> io::Error {
    match library_error(&error) {
        Some(library_error) => fault_of(library_error).into(),
        None => error,
    }
}

/// Explains the first error of a stream after the handshake, if it means that the server refuses the client's
/// certificate. With TLS 1.3 the client's handshake ends before the server has looked at the certificate.
pub(super) fn refusal(error: &io::Error) -> Option<io::Error> {
    let Some(Error::AlertReceived(alert)) = library_error(error) else { return None };
    of_client(*alert).map(|why| TlsFault::Client(why).into())
}

fn library_error(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

/// The library's name for the error about a CA certificate that a server shows as its own. The library has no public
/// variant for it, so its debug text must do.
const SIGNS_ITSELF: &str = "CaUsedAsEndEntity";

fn fault_of(error: &Error) -> TlsFault {
    match error {
        Error::InvalidCertificate(why) => TlsFault::Server(of_server(why)),
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => TlsFault::Plain,
        Error::AlertReceived(alert) => match of_client(*alert) {
            Some(why) => TlsFault::Client(why),
            None => TlsFault::Handshake(error.to_string()),
        },
        error => TlsFault::Handshake(error.to_string()),
    }
}

fn of_server(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "it has expired; renew it, or correct the clock of this machine"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet; correct the clock of this machine"
        }
        CertificateError::UnknownIssuer => {
            "its issuer is not trusted; set `ca_file` to the certificate of the server's CA"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it does not contain the host of this connection; connect by a name in it, or set `server_name`"
        }
        CertificateError::Revoked => "it was revoked",
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "it is not for servers; its extended key usage must be server authentication"
        }
        CertificateError::BadSignature => {
            "its signature is wrong; check that `ca_file` is its issuer's certificate"
        }
        CertificateError::Other(other) if format!("{other:?}").contains(SIGNS_ITSELF) => {
            "it is a CA certificate, as `openssl req -x509` makes; set `ca_file` to it to trust exactly this one"
        }
        _ => "it is malformed, or uses a feature that this client does not support",
    }
}

const fn of_client(alert: AlertDescription) -> Option<&'static str> {
    Some(match alert {
        AlertDescription::CertificateRequired | AlertDescription::NoCertificate => {
            "none was sent; set the client's certificate and key"
        }
        AlertDescription::UnknownCA => "its issuer is not trusted; check the server's `tls-ca-cert-file`",
        AlertDescription::CertificateExpired => "it has expired; renew it",
        AlertDescription::CertificateRevoked => "it was revoked",
        AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::AccessDenied => {
            "check that it is for clients, valid now, and issued by a CA that the server trusts"
        }
        _ => return None,
    })
}
