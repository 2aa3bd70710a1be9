//! Where connections get their credentials: fixed values, a file, or a function of the application.
//!
//! Invariant: each new connection asks the source again. A source that fails, panics or does not answer fails that
//! attempt to connect, and leaves the other connections alone.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::tokio_runtime::{off_thread, within};
use crate::url::Credentials;

/// The largest password file, in bytes. A signed token fits, and a path to something endless fails at once.
const FILE_MAX: usize = 64 << 10;

/// An error of a provider. Its text is shown to the user, so it must repeat no secret.
pub type ProviderError = Box<dyn Error + Send + Sync>;

/// A source of credentials, for example of the tokens of a cloud.
///
/// The client asks at each connect. If the credentials have a lifetime ([`Credentials::expires_in`]), it also asks after
/// three quarters of that time, and logs in again on the connections that are open. It never asks a Sentinel's login here.
///
/// The method runs on the thread of the client, which renews the locks, so it must not block. It has the time of one
/// attempt to connect. Then its future is dropped, and the attempt has failed.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use leasehold_store::redis::{CredentialsProvider, ProviderError};
/// use leasehold_store::url::Credentials;
///
/// struct Tokens;
///
/// impl CredentialsProvider for Tokens {
///     async fn credentials(&self) -> Result<Credentials, ProviderError> {
///         let token = "a token that the cloud has signed";
///         Ok(Credentials::new("app", token).expires_in(Duration::from_secs(900)))
///     }
/// }
/// ```
pub trait CredentialsProvider: Send + Sync + 'static {
    /// Returns credentials that are valid now.
    ///
    /// # Errors
    /// The connection is not made. The client asks again when it connects again, or after a pause of 1 s to 30 s if its
    /// connections are open.
    fn credentials(&self) -> impl Future<Output = Result<Credentials, ProviderError>> + Send;
}

/// Fixed credentials.
impl CredentialsProvider for Credentials {
    async fn credentials(&self) -> Result<Credentials, ProviderError> {
        Ok(self.clone())
    }
}

/// A password in a file that each connection reads again, so that a rotation needs no restart.
///
/// The password is the file's text without line ends behind it. Replace the file by renaming a new one over it, so that no
/// connection reads half of it. Connections that are open go on with their login.
#[derive(Clone, Debug)]
pub struct CredentialsFile {
    user: Option<String>,
    path: PathBuf,
}

impl CredentialsFile {
    /// Returns the login of the default user by the password in this file.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { user: None, path: path.into() }
    }

    /// Sets the user (default: the default user of the server).
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }
}

impl CredentialsProvider for CredentialsFile {
    async fn credentials(&self) -> Result<Credentials, ProviderError> {
        let path = self.path.clone();
        let read = off_thread(move || std::fs::read_to_string(path)).await?;
        let unusable = |problem: &str| format!("the password file {}: {problem}", self.path.display());
        let text = read.map_err(|error| unusable(&error.to_string()))?;
        let password = text.trim_end_matches(['\r', '\n']);
        match password.len() {
            0 => Err(unusable("it is empty").into()),
            1..=FILE_MAX => Ok(Credentials { user: self.user.clone(), ..Credentials::password(password) }),
            _ => Err(unusable("it is longer than 64 KiB").into()),
        }
    }
}

/// The source of a client's credentials, of any type.
#[derive(Clone)]
pub struct CredentialsSource(Arc<dyn Ask>);

/// A provider behind a pointer.
trait Ask: Send + Sync {
    fn ask(&self) -> BoxFuture<'_, Result<Credentials, ProviderError>>;
}

impl<P: CredentialsProvider> Ask for P {
    fn ask(&self) -> BoxFuture<'_, Result<Credentials, ProviderError>> {
        self.credentials().boxed()
    }
}

impl CredentialsSource {
    /// Returns the source that this provider is.
    pub fn new(provider: impl CredentialsProvider) -> Self {
        Self(Arc::new(provider))
    }

    /// Asks for credentials, within a time.
    pub(super) async fn ask(&self, limit: Duration) -> io::Result<Credentials> {
        // The wire gives an attempt up at its limit, so the source, which has a reason to tell, ends before.
        let limit = limit - limit / 20;
        let asking = AssertUnwindSafe(async { self.0.ask().await }).catch_unwind();
        let fault = match within(limit, asking).await {
            Some(Ok(Ok(credentials))) => return Ok(credentials),
            Some(Ok(Err(error))) => CredentialsFault::Failed(error),
            // The panic hook has reported the panic.
            Some(Err(_)) => CredentialsFault::Panicked,
            None => CredentialsFault::Silent,
        };
        Err(io::Error::other(fault))
    }
}

impl fmt::Debug for CredentialsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialsSource")
    }
}

/// The reason why there are no credentials. It travels inside an `io::Error`, as the failures of a dial do.
#[derive(Debug, thiserror::Error)]
pub(super) enum CredentialsFault {
    #[error("{0}")]
    Failed(ProviderError),
    #[error("the credentials provider panicked")]
    Panicked,
    #[error("the credentials provider did not answer in time")]
    Silent,
}

impl CredentialsFault {
    /// Returns true if the error is the lack of credentials.
    pub(super) fn is_inside(error: &io::Error) -> bool {
        error.get_ref().and_then(|inner| inner.downcast_ref::<Self>()).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    async fn asked(provider: impl CredentialsProvider, limit: Duration) -> Result<Credentials, String> {
        let source = CredentialsSource::new(provider);
        assert_eq!(format!("{source:?}"), "CredentialsSource");
        source.ask(limit).await.map_err(|error| {
            assert!(CredentialsFault::is_inside(&error));
            error.to_string()
        })
    }

    /// A provider that fails in one of its ways.
    enum Bad {
        Fails,
        Panics,
        Sleeps,
    }

    impl CredentialsProvider for Bad {
        async fn credentials(&self) -> Result<Credentials, ProviderError> {
            match self {
                Self::Fails => Err("no role".into()),
                Self::Panics => panic!("a test's provider panics"),
                Self::Sleeps => std::future::pending().await,
            }
        }
    }

    #[tokio::test]
    async fn a_file_is_read_again_and_loses_its_line_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let provider = CredentialsFile::new(file.path()).user("app");
        for (text, password) in [("one", "one"), ("two\n", "two"), (" three \r\n\n", " three ")] {
            std::fs::write(file.path(), text).unwrap();
            assert_eq!(asked(provider.clone(), SOON).await, Ok(Credentials::new("app", password)));
        }
        for (text, problem) in [("\n".to_owned(), "empty"), ("x".repeat(FILE_MAX + 1), "longer")] {
            std::fs::write(file.path(), text).unwrap();
            assert!(asked(provider.clone(), SOON).await.unwrap_err().contains(problem));
        }
        let missing = CredentialsFile::new("/no/such/file");
        assert!(asked(missing, SOON).await.unwrap_err().contains("the password file /no/such/file: "));
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_gives_nothing_says_why() {
        for (bad, says) in [(Bad::Fails, "no role"), (Bad::Panics, "panicked"), (Bad::Sleeps, "in time")] {
            let error = asked(bad, SOON).await.unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        let fixed = Credentials::password("hunter2");
        assert_eq!(asked(fixed.clone(), SOON).await.as_ref(), Ok(&fixed));
        assert!(!format!("{fixed:?}").contains("hunter2"));
    }
}
