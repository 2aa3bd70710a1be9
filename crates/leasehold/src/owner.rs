//! Owners: explicit owners, the ambient owner of a scope, and the owners of the bodies that enclose the caller.
//!
//! An owner is a value that travels with the code. It is never a thread, since async code changes threads.
//!
//! # How it works
//! A body that runs under a lock adds an entry to the *re-entry context* of its callees: client, name and owner. An
//! acquire uses the owner of the innermost entry with its name, or else the owner of the scope, or else an owner of
//! its own. So the callees of a body re-enter the body's lock, and the concurrent branches of a body exclude each
//! other on every other name.

use std::future::Future;
use std::sync::Arc;

use leasehold_proto::{ClientId, Name};
use tokio::task;

pub use leasehold_proto::Owner;

tokio::task_local! {
    static CONTEXT: ReentryContext;
}

/// The re-entry context of the running code: its scope, and an entry for each enclosing body.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReentryContext {
    /// The task that this value belongs to. A task that polls other tasks, such as a task that awaits a `LocalSet`,
    /// does not pass the value on to them.
    task: Option<task::Id>,
    scope: Option<Owner>,
    innermost: Option<Arc<ContextEntry>>,
}

/// The entry of one body that runs under a lock.
#[derive(Debug)]
struct ContextEntry {
    client: ClientId,
    name: Name,
    owner: Owner,
    outer: Option<Arc<Self>>,
}

/// Runs a future in which every acquire has the same owner, so that nested acquires of one name re-enter.
///
/// Without a scope, every acquire has an owner of its own, and code that acquires a lock twice waits for itself.
/// [`Lock::run`](crate::Lock::run) needs no scope, because the callees of its body re-enter its lock. An inner scope
/// uses the owner of the outer scope. Spawned tasks do *not* inherit a scope, since they are independent code with
/// holds of their own. Concurrent branches inside one scope (`join!`, `select!`) share its owner and do not exclude
/// each other. If branches should exclude each other, use an [`Owner`] for each branch, or wrap each branch in
/// [`independent`].
///
/// # Cancel safety
/// Dropping the future drops the inner future together with its guards.
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

/// Runs a future as independent code, with no owner from the scope or from an enclosing body.
///
/// Every future that a body or a scope polls runs as its callee and re-enters its locks, whichever executor polls it.
/// Tokio's tasks are an exception, including those of a `LocalSet`, because tokio distinguishes them. The tasks of
/// another executor that the body drives, such as a `LocalPool` of `futures-executor`, look like branches of a
/// `join!`. Wrap such a task in `independent` to keep it out of the locks that the body holds.
///
/// # Cancel safety
/// Dropping the future drops the inner future together with its guards.
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
    CONTEXT.scope(ReentryContext { task: task::try_id(), ..ReentryContext::default() }, future).await
}

/// Returns the owner of the enclosing scope, if the calling code runs in a scope.
#[must_use]
pub fn ambient() -> Option<Owner> {
    ReentryContext::current().scope
}

/// Runs a future in a scope of this owner, unless a scope exists already.
pub(crate) fn scope_of<F: Future>(owner: Owner, future: F) -> impl Future<Output = F::Output> {
    let current = ReentryContext::current();
    CONTEXT.scope(ReentryContext { scope: current.scope.or(Some(owner)), ..current }, future)
}

/// Returns the owner of the innermost enclosing body that runs under this name.
pub(crate) fn enclosing_owner(client: ClientId, name: &Name) -> Option<Owner> {
    let mut next = ReentryContext::current().innermost;
    while let Some(entry) = next {
        if entry.client == client && entry.name == *name {
            return Some(entry.owner);
        }
        next = entry.outer.clone();
    }
    None
}

/// Returns the owner of an acquire of this name that has no explicit owner.
pub(crate) fn of_caller(client: ClientId, name: &Name) -> Owner {
    enclosing_owner(client, name).or_else(ambient).unwrap_or_else(Owner::unique)
}

impl ReentryContext {
    fn current() -> Self {
        let task = task::try_id();
        let context = CONTEXT.try_with(|context| (context.task == task).then(|| context.clone()));
        context.ok().flatten().unwrap_or(Self { task, ..Self::default() })
    }
}

/// The entry that a body will add to the re-entry context, or none. The rest of its context is read where the body
/// begins, which can be another task or thread than the wait had.
#[derive(Clone, Debug)]
pub(crate) struct BodyContext(Option<(ClientId, Name, Owner)>);

impl BodyContext {
    pub(crate) const fn name(client: ClientId, name: Name, owner: Owner) -> Self {
        Self(Some((client, name, owner)))
    }

    pub(crate) const fn nothing() -> Self {
        Self(None)
    }

    /// Returns the context of the body if it begins here.
    fn here(self) -> ReentryContext {
        let current = ReentryContext::current();
        match self.0 {
            Some((client, name, owner)) => {
                let entry = ContextEntry { client, name, owner, outer: current.innermost };
                ReentryContext { innermost: Some(Arc::new(entry)), ..current }
            }
            None => current,
        }
    }

    /// Runs a future in this context. The caller creates the future where it awaits it, since the context is read
    /// here.
    pub(crate) fn future<F: Future>(self, future: F) -> impl Future<Output = F::Output> {
        CONTEXT.scope(self.here(), future)
    }

    /// Runs a closure in this context.
    #[cfg(feature = "blocking")]
    pub(crate) fn closure<T>(self, closure: impl FnOnce() -> T) -> T {
        CONTEXT.sync_scope(self.here(), closure)
    }
}
