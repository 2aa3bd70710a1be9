//! Writes with a fencing token, which the server refuses after a newer holder has written.

// Invariant: the check and the write are one step on the server.

use std::fmt;
use std::sync::Arc;

use leasehold_proto::recipe::fence::{self, WriteOutcome};
use leasehold_proto::{Applied, Call, Confirm, Name, Script};
pub use leasehold_proto::{MapEntry, Reply};

use crate::error::{About, FencedWriteError, InspectErrorKind, OperationErrorKind, Subject, SubjectKind};
use crate::lock::FencedGuard;
use crate::lock::guard::Guard;
use crate::name::{IntoName, Named};
use crate::runtime::operation::perform;
use crate::runtime::shared::Handle;

/// Writes on behalf of the holder of a fencing token. The server refuses a write if a newer token has written to the
/// same key.
///
/// [`FencedGuard::fenced`] creates it, or [`Client::fenced`](crate::Client::fenced) from a token that another process
/// passed on. Each key has a helper key, `leasehold_fence:{key}`, which holds the highest token and has no expiry.
/// All writers of the key must write this way, with tokens of one lock.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = leasehold::Client::connect("memory://").await?;
/// use leasehold::FencedWriteError;
///
/// let late = client.fenced_lock("stock:42").lock().await?;
/// let (token, late) = (late.token(), late.fenced());
/// # client.fenced_lock("stock:42").force_unlock().await?; // as if its lease had ended
/// let now = client.fenced_lock("stock:42").lock().await?; // the next holder
/// now.fenced().set("stock:42:left", "16").await?;
///
/// // The one that was paused wakes up, and is refused.
/// let refused = late.set("stock:42:left", "17").await;
/// assert!(matches!(refused, Err(FencedWriteError::Stale { newest, .. }) if newest > token));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct FencedWrites {
    handle: Arc<Handle>,
    token: u64,
    replicas: Option<Confirm>,
}

/// A user's script that runs only if its token is not older than the newest token.
///
/// Create it once, in a `static`, because its text is kept for the life of the process.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = leasehold::Client::connect("memory://").await?;
/// use leasehold::fenced_writes::{FencedScript, Reply};
/// use std::sync::LazyLock;
///
/// static TAKE: LazyLock<FencedScript> =
///     LazyLock::new(|| FencedScript::new("return redis.call('decrby', KEYS[1], ARGV[1])"));
///
/// let guard = client.fenced_lock("stock:42").lock().await?;
/// let left = guard.fenced().run(&TAKE, ["stock:42:left"], ["3"]).await?;
/// assert_eq!(left, Reply::Int(-3));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FencedScript(&'static Script);

impl FencedScript {
    /// Creates a script of this Lua text. Its keys and arguments are numbered as in any script. The token is checked
    /// for the first key, and all keys must be in one cluster slot.
    #[must_use]
    pub fn new(lua: &str) -> Self {
        Self(fence::with_check(lua))
    }
}

impl FencedGuard {
    /// Returns a writer with this grant's token. The replicas that confirm the hold confirm its writes too.
    #[must_use]
    pub fn fenced(&self) -> FencedWrites {
        FencedWrites::of(self.as_ref(), self.token())
    }
}

impl FencedWrites {
    pub(crate) fn new(handle: &Arc<Handle>, token: u64) -> Self {
        Self { handle: Arc::clone(handle), token, replicas: None }
    }

    /// Creates the writes of a hold, which the replicas of the hold confirm.
    pub(crate) fn of(hold: &Guard, token: u64) -> Self {
        Self { replicas: hold.confirmed_by(), ..Self::new(hold.handle(), token) }
    }

    /// Sets the replicas that must acknowledge each write (default: the hold's, or else the client's). See
    /// [`HoldTerms::replicas`](crate::HoldTerms::replicas).
    #[must_use]
    pub const fn replicas(mut self, policy: Confirm) -> Self {
        self.replicas = Some(policy);
        self
    }

    /// Sets a key to a value.
    ///
    /// # Errors
    /// [`FencedWriteError::Stale`] if a newer token has written to the key. This call wrote nothing, and the holder of
    /// this token has lost the lock. Otherwise the errors are those of every operation. After an unknown outcome it is
    /// safe to repeat the call.
    ///
    /// # Cancel safety
    /// Dropping the future does not cancel a call that was sent.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let guard = client.fenced_lock("stock:42").lock().await?;
    /// guard.fenced().set("stock:42:left", "16").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set(&self, key: impl IntoName, value: impl AsRef<[u8]>) -> Result<(), FencedWriteError> {
        self.write(&self.handle.name(key), |key| fence::set(self.token, key, value.as_ref())).await
    }

    /// Sets a field of a hash to a value.
    ///
    /// # Errors
    /// As [`set`](Self::set). The token is checked for the whole hash.
    ///
    /// # Cancel safety
    /// Dropping the future does not cancel a call that was sent.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let guard = client.fenced_lock("stock:42").lock().await?;
    /// guard.fenced().hset("stock:42", "left", "16").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn hset(
        &self,
        key: impl IntoName,
        field: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<(), FencedWriteError> {
        self.write(&self.handle.name(key), |key| fence::hset(self.token, key, field.as_ref(), value.as_ref()))
            .await
    }

    /// Runs the user's script once and returns its reply.
    ///
    /// # Errors
    /// As [`set`](Self::set), for the script's first key. The client sends the script once, since a second run may have
    /// another effect, so the caller has to resolve [`OperationErrorKind::Unknown`]. A script error has this kind too,
    /// because the writes before the error stay.
    ///
    /// # Panics
    /// Panics if `keys` is empty.
    ///
    /// # Cancel safety
    /// Dropping the future does not cancel a call that was sent.
    ///
    /// # Examples
    /// See [`FencedScript`].
    pub async fn run<N: IntoName, A: AsRef<[u8]>>(
        &self,
        script: &FencedScript,
        keys: impl IntoIterator<Item = N>,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Reply, FencedWriteError> {
        let keys: Vec<Named> = keys.into_iter().map(|key| self.handle.name(key)).collect();
        let first = keys.first().expect("a fenced script is about its first key").clone();
        // The error names a key that cannot be used, or else the first key.
        let about = keys.iter().find(|key| key.is_err()).unwrap_or(&first);
        let subject = self.subject(about);
        let keys = keys.into_iter().collect::<Result<Vec<_>, _>>();
        let outcome = async {
            let keys = keys.map_err(OperationErrorKind::from)?;
            let args = args.into_iter().map(|arg| arg.as_ref().to_vec()).collect();
            let call = fence::checked(script.0, self.token, &keys[0], &keys[1..], args);
            self.handle.query(call.confirmed_by(self.replicas), fence::read).await.map_err(once)
        };
        done(outcome.await.about(|| subject.clone())?, subject)
    }

    /// Writes to one key.
    async fn write(&self, key: &Named, call: impl FnOnce(&Name) -> Call) -> Result<(), FencedWriteError> {
        let outcome = async {
            let key = key.as_ref().map_err(|bad| OperationErrorKind::from(bad.clone()))?;
            perform(&self.handle, |_| call(key).confirmed_by(self.replicas), fence::read).await
        };
        done(outcome.await.about(|| self.subject(key))?, self.subject(key)).map(drop)
    }

    /// Returns the object that errors name.
    fn subject(&self, key: &Named) -> Subject {
        self.handle.subject(SubjectKind::Key, key)
    }
}

fn done(outcome: WriteOutcome, subject: Subject) -> Result<Reply, FencedWriteError> {
    match outcome {
        WriteOutcome::Done(reply) => Ok(reply),
        WriteOutcome::Stale { newest } => Err(FencedWriteError::Stale { subject, newest }),
    }
}

/// Returns the outcome of a user's script. Unlike a script of this library, such a script may have written before it
/// found a key of another type.
fn once(error: InspectErrorKind) -> OperationErrorKind {
    match error {
        InspectErrorKind::Store(source) => match source.applied {
            Applied::No => OperationErrorKind::Store(source),
            Applied::Unknown => OperationErrorKind::Unknown(source),
        },
        InspectErrorKind::Name(source) => OperationErrorKind::Name(source),
        InspectErrorKind::Forked => OperationErrorKind::Forked,
        InspectErrorKind::Closed | InspectErrorKind::NoExpiry => OperationErrorKind::Closed,
    }
}

impl fmt::Debug for FencedWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FencedWrites").field("token", &self.token).finish_non_exhaustive()
    }
}
