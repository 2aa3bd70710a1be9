//! A PEM text: certificates or a key, from a file or from memory.
//!
//! Invariant: an error names the file and the problem, and repeats nothing of the text, which may be a key.

use std::borrow::Cow;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

use crate::redis::tls_fault::TlsFault;

/// A text in PEM, or the file that has it.
#[derive(Clone)]
pub(super) enum Pem {
    File(PathBuf),
    Text(Arc<[u8]>),
}

impl Pem {
    pub(super) fn read(&self, what: &'static str) -> Result<Cow<'_, [u8]>, TlsFault> {
        match self {
            Self::Text(text) => Ok(Cow::Borrowed(text)),
            Self::File(path) => {
                fs::read(path).map(Cow::Owned).map_err(|error| self.unusable(what, error.to_string()))
            }
        }
    }

    pub(super) fn unusable(&self, what: &'static str, problem: impl Into<String>) -> TlsFault {
        match self {
            Self::File(path) => TlsFault::File { what, path: path.clone(), problem: problem.into() },
            Self::Text(_) => TlsFault::Pem { what, problem: problem.into() },
        }
    }

    /// Returns the certificates of the text that was read.
    pub(super) fn certificates(
        &self,
        what: &'static str,
        text: &[u8],
    ) -> Result<Vec<CertificateDer<'static>>, TlsFault> {
        let read = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>();
        match read {
            Ok(certificates) if certificates.is_empty() => {
                Err(self.unusable(what, "it contains no PEM certificate"))
            }
            Ok(certificates) => Ok(certificates),
            Err(_) => Err(self.unusable(what, "it is not PEM")),
        }
    }
}

/// Shows the name of a file, and nothing of a text.
impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Text(_) => f.write_str("***"),
        }
    }
}
