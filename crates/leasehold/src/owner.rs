//! Who holds: explicit owners, the ambient one of a scope, and those of the bodies that run around the caller.
//!
//! Invariant: an owner is a value that travels with the code, never a thread, since async code changes threads.
//! Called by: users, around code that takes one lock more than once; `run`, around its body; the locks, which look who
//! takes them.
//!
//! # How it works
//! A body that runs under a lock has a *frame* around it: client, name and owner. An acquire takes the owner of the
//! innermost frame of its name, else that of the scope, else its own. So what a body calls re-enters the body's lock,
//! and branches that the body runs side by side exclude each other on every other name.

use std::future::Future;
use std::sync::Arc;

use leasehold_proto::{ClientId, Name};
use tokio::task;

pub use leasehold_proto::Owner;

tokio::task_local! {
    static AROUND: Around;
}

/// What is around the code that runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Around {
    /// Whose it is: a task that polls others, such as one that awaits a `LocalSet`, has nothing around those.
    task: Option<task::Id>,
    scope: Option<Owner>,
    frames: Option<Arc<Frame>>,
}

/// A body that runs under a lock.
#[derive(Debug)]
struct Frame {
    client: ClientId,
    name: Name,
    owner: Owner,
    outer: Option<Arc<Self>>,
}

/// Runs a future in which every acquire has the same owner, so that nested acquires of one name re-enter.
///
/// Without a scope every acquire is its own owner, and taking a lock that the same code already holds waits for
/// itself. [`Lock::run`](crate::Lock::run) needs none: what its body calls re-enters its lock. A scope inside a scope is
/// the outer one. A scope is *not* inherited by spawned tasks: they are other code, with their own ideas of what they
/// hold. Branches that run concurrently inside one scope (`join!`, `select!`) share its owner and therefore do not
/// exclude each other; take an [`Owner`] apiece where they should, or wrap each in [`independent`].
///
/// # Cancel safety
/// Dropping the future drops the inner one, and with it the guards that it holds.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::Client::connect("memory://").await?;
/// leasehold::owner::scope(async {
///     let outer = client.lock("order:42").lock().await?;
///     let inner = client.lock("order:42").lock().await?; // a second hold, granted at once
///     inner.release().await?;
///     outer.release().await?;
///     Ok(())
/// })
/// .await
/// # }
/// ```
pub async fn scope<F: Future>(future: F) -> F::Output {
    scope_of(Owner::unique(), future).await
}

/// Runs a future as code of its own: neither the scope nor a body around it lends it an owner.
///
/// Every future that a body or a scope polls runs as its callee and re-enters its locks, whichever executor does the
/// polling. Tokio's tasks are excepted, also those of a `LocalSet`, because tokio tells them apart. The tasks of another
/// executor that the body drives itself, such as a `LocalPool` of `futures-executor`, look like branches of a `join!`.
/// Wrap a task of that kind when it must be kept out of the locks that the body holds.
///
/// # Cancel safety
/// Dropping the future drops the inner one, and with it the guards that it holds.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::Client::connect("memory://").await?;
/// let lock = client.lock("order:42");
/// lock.run(async |_guard| {
///     let callee = lock.try_lock();
///     assert!(callee.await.expect("it answers").is_some(), "a callee re-enters the body's lock");
///
///     let job = leasehold::owner::independent(lock.try_lock());
///     assert!(job.await.expect("it answers").is_none(), "independent code finds it held");
/// })
/// .await?;
/// # Ok(())
/// # }
/// ```
pub async fn independent<F: Future>(future: F) -> F::Output {
    AROUND.scope(Around { task: task::try_id(), ..Around::default() }, future).await
}

/// The owner of the scope that the calling code runs in, if it runs in one.
#[must_use]
pub fn ambient() -> Option<Owner> {
    Around::now().scope
}

/// A scope of this owner, unless there is one already.
pub(crate) fn scope_of<F: Future>(owner: Owner, future: F) -> impl Future<Output = F::Output> {
    let now = Around::now();
    AROUND.scope(Around { scope: now.scope.or(Some(owner)), ..now }, future)
}

/// The owner of the innermost body around the caller that runs under this name.
pub(crate) fn of_body_around(client: ClientId, name: &Name) -> Option<Owner> {
    let mut frame = Around::now().frames;
    while let Some(around) = frame {
        if around.client == client && around.name == *name {
            return Some(around.owner);
        }
        frame = around.outer.clone();
    }
    None
}

/// Who takes this name here, unless somebody is named.
pub(crate) fn of_caller(client: ClientId, name: &Name) -> Owner {
    of_body_around(client, name).or_else(ambient).unwrap_or_else(Owner::unique)
}

impl Around {
    fn now() -> Self {
        let task = task::try_id();
        let around = AROUND.try_with(|around| (around.task == task).then(|| around.clone()));
        around.ok().flatten().unwrap_or(Self { task, ..Self::default() })
    }
}

/// What a body runs under: a name, or nothing that re-enters. What else is around it is known where it runs, which may be
/// another task or thread than the one that waited.
#[derive(Clone, Debug)]
pub(crate) struct Under(Option<(ClientId, Name, Owner)>);

impl Under {
    pub(crate) const fn name(client: ClientId, name: Name, owner: Owner) -> Self {
        Self(Some((client, name, owner)))
    }

    pub(crate) const fn nothing() -> Self {
        Self(None)
    }

    /// What is around the body if it begins here.
    fn here(self) -> Around {
        let now = Around::now();
        match self.0 {
            Some((client, name, owner)) => {
                let frame = Frame { client, name, owner, outer: now.frames };
                Around { frames: Some(Arc::new(frame)), ..now }
            }
            None => now,
        }
    }

    /// A future with this around it; to be called where it is awaited.
    pub(crate) fn future<F: Future>(self, future: F) -> impl Future<Output = F::Output> {
        AROUND.scope(self.here(), future)
    }

    /// A closure with this around it.
    #[cfg(feature = "blocking")]
    pub(crate) fn closure<T>(self, closure: impl FnOnce() -> T) -> T {
        AROUND.sync_scope(self.here(), closure)
    }
}
