//! Who holds: explicit owners, and the ambient one of a scope.
//!
//! Invariant: an owner is a value that travels with the code, never a thread, since async code changes threads.
//! Called by: users, around code that takes one lock more than once.

use std::future::Future;

pub use leasehold_proto::Owner;

tokio::task_local! {
    static AMBIENT: Owner;
}

/// Runs a future in which every acquire has the same owner, so that nested acquires of one name re-enter.
///
/// Without a scope every acquire is its own owner, and taking a lock that the same code already holds waits for
/// itself. A scope inside a scope is the outer one. A scope is *not* inherited by spawned tasks: they are other code,
/// with their own ideas of what they hold. Branches that run concurrently inside one scope (`join!`, `select!`) share
/// its owner and therefore do not exclude each other; take an [`Owner`] apiece where they should.
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
    let owner = ambient().unwrap_or_else(Owner::unique);
    AMBIENT.scope(owner, future).await
}

/// The owner of the scope that the calling code runs in, if it runs in one.
#[must_use]
pub fn ambient() -> Option<Owner> {
    AMBIENT.try_with(|owner| *owner).ok()
}
