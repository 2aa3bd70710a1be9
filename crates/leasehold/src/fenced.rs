//! Writes to the same server that a newer holder's write makes impossible.
//!
//! Invariant: the check and the write are one step on the server.
//! Called by: users, with the token of a fenced guard.

use std::fmt;
use std::sync::Arc;

use leasehold_proto::recipe::fence::{self, Written};
use leasehold_proto::{Applied, Call, Name, Reply, Script};

use crate::error::{About, FencedWriteError, InspectErrorKind, OperationErrorKind, Subject, SubjectKind};
use crate::lock::FencedGuard;
use crate::name::{IntoName, Named};
use crate::operation::perform;
use crate::shared::Handle;

/// Writes on behalf of the holder of a fencing token: each is refused when a newer token has written to the same key.
///
/// Made by [`FencedGuard::fenced`], or by [`Client::fenced`](crate::Client::fenced) from a token that has travelled.
/// Beside each key that is written so stands another one, `leasehold_fence:{key}`, with the highest token; it stays.
/// Everybody who writes to the key has to do it this way, and with tokens of one lock.
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
}

/// A script of your own that runs only for a token that is not older than the newest.
///
/// Make it once, in a `static`: its text is kept for the life of the process.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = leasehold::Client::connect("memory://").await?;
/// use leasehold::{FencedScript, Reply};
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
    /// A script of this Lua text. Its keys and arguments are numbered as in any script; the first key is the one that the
    /// token is checked for, and all have to be of one cluster slot.
    #[must_use]
    pub fn new(lua: &str) -> Self {
        Self(fence::hooked(lua))
    }
}

impl FencedGuard {
    /// Writes with this grant's token.
    #[must_use]
    pub fn fenced(&self) -> FencedWrites {
        FencedWrites::new(self.as_ref().handle(), self.token())
    }
}

impl FencedWrites {
    pub(crate) fn new(handle: &Arc<Handle>, token: u64) -> Self {
        Self { handle: Arc::clone(handle), token }
    }

    /// Sets a key to a value.
    ///
    /// # Errors
    /// [`FencedWriteError::Stale`] when a newer token has written to the key: nothing was written, and whoever has this
    /// token has lost the lock. Else as every operation; when it is unknown whether it was done, asking again is safe.
    ///
    /// # Cancel safety
    /// Dropping the future does not take back what was sent.
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
    /// As [`set`](Self::set); the token is checked for the whole hash.
    ///
    /// # Cancel safety
    /// Dropping the future does not take back what was sent.
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

    /// Runs a script of your own, once, and returns its reply.
    ///
    /// # Errors
    /// As [`set`](Self::set), by the script's first key. It is sent once: a script need not come to the same when it runs
    /// twice, so [`OperationErrorKind::Unknown`] has to be looked into by whoever wrote it. A script that fails is one of
    /// these: what it wrote before it failed is written.
    ///
    /// # Panics
    /// When there are no keys.
    ///
    /// # Cancel safety
    /// Dropping the future does not take back what was sent.
    pub async fn run<N: IntoName, A: AsRef<[u8]>>(
        &self,
        script: &FencedScript,
        keys: impl IntoIterator<Item = N>,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Reply, FencedWriteError> {
        let keys: Vec<Named> = keys.into_iter().map(|key| self.handle.name(key)).collect();
        let first = keys.first().expect("a fenced script is about its first key").clone();
        // A key that cannot be used is what the error is about; else the first.
        let about = keys.iter().find(|key| key.is_err()).unwrap_or(&first);
        let subject = self.subject(about);
        let keys = keys.into_iter().collect::<Result<Vec<_>, _>>();
        let written = async {
            let keys = keys.map_err(OperationErrorKind::from)?;
            let args = args.into_iter().map(|arg| arg.as_ref().to_vec()).collect();
            let call = fence::checked(script.0, self.token, &keys[0], &keys[1..], args);
            self.handle.ask(call, fence::read).await.map_err(once)
        };
        done(written.await.about(|| subject.clone())?, subject)
    }

    /// Writes to one key.
    async fn write(&self, key: &Named, call: impl FnOnce(&Name) -> Call) -> Result<(), FencedWriteError> {
        let written = async {
            let key = key.as_ref().map_err(|bad| OperationErrorKind::from(bad.clone()))?;
            perform(&self.handle, |_| call(key), fence::read).await
        };
        done(written.await.about(|| self.subject(key))?, self.subject(key)).map(drop)
    }

    /// What an error is about.
    fn subject(&self, key: &Named) -> Subject {
        self.handle.subject(SubjectKind::Key, key)
    }
}

fn done(written: Written, subject: Subject) -> Result<Reply, FencedWriteError> {
    match written {
        Written::Done(reply) => Ok(reply),
        Written::Stale { newest } => Err(FencedWriteError::Stale { subject, newest }),
    }
}

/// What became of a script of the user's. Unlike ours it may have written before it came upon a key of another type.
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
