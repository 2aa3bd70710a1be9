//! Traits in the code that the attribute [`locked`](macro@crate::locked) generates. They let the compiler's errors
//! name the user's function.
//!
//! Invariant: only generated code uses this module, and it may change with any version.

use std::ops::Deref;

use crate::error::RunError;

/// The return type of a locked function.
#[diagnostic::on_unimplemented(
    message = "a locked function cannot return `{Self}`",
    label = "cannot say that the body did not run",
    note = "a locked function returns a `Result` whose error implements `From<leasehold::RunError>`, so that it can say \
            that its body did not run",
    note = "`leasehold::RunError`, `leasehold::Error`, `anyhow::Error` and `Box<dyn std::error::Error>` are such errors; \
            to one of your own add `impl From<leasehold::RunError>`"
)]
pub trait LockedOutput {
    /// Returns the error of a body that did not run, or that lost its lock.
    fn refused(error: impl Into<RunError>) -> Self;
}

/// The return type of a locked function that may be skipped.
#[diagnostic::on_unimplemented(
    message = "a locked function that may be skipped cannot return `{Self}`",
    label = "has no value for a body that was skipped",
    note = "`on_busy = skip` returns `Ok(Default::default())`, so the function returns a `Result<T, E>` with `T: Default`, \
            such as `()`, `Option<T>` or `bool`",
    note = "for a value of another kind write `on_busy = fallback(function)`"
)]
pub trait SkippedOutput {
    /// Returns the value of a body that was skipped.
    fn skipped() -> Self;
}

#[diagnostic::do_not_recommend]
impl<T, E: From<RunError>> LockedOutput for Result<T, E> {
    fn refused(error: impl Into<RunError>) -> Self {
        Err(E::from(error.into()))
    }
}

#[diagnostic::do_not_recommend]
impl<T: Default, E> SkippedOutput for Result<T, E> {
    fn skipped() -> Self {
        Ok(T::default())
    }
}

/// The client of a locked async function, or a value that dereferences to one.
#[diagnostic::on_unimplemented(
    message = "the client of a locked async function is a `leasehold::Client`, not a `{Self}`",
    label = "is not a `leasehold::Client`",
    note = "a `leasehold::blocking::Client` is for functions that are not async"
)]
pub trait AsyncClient {
    /// Returns the client.
    fn client(&self) -> &crate::Client;
}

impl AsyncClient for crate::Client {
    fn client(&self) -> &crate::Client {
        self
    }
}

#[diagnostic::do_not_recommend]
impl<T: Deref<Target: AsyncClient> + ?Sized> AsyncClient for T {
    fn client(&self) -> &crate::Client {
        (**self).client()
    }
}

/// The client of a locked function that is not async, or a value that dereferences to one.
///
/// ```compile_fail,E0277
/// #[leasehold::locked(name = "job", client = client)]
/// fn with_an_async_client(client: &leasehold::Client) -> Result<(), leasehold::Error> {
///     Ok(())
/// }
/// ```
#[cfg(feature = "blocking")]
#[diagnostic::on_unimplemented(
    message = "the client of a locked function that is not async is a `leasehold::blocking::Client`, not a `{Self}`",
    label = "is not a `leasehold::blocking::Client`",
    note = "a `leasehold::Client` is for async functions: write `async fn`, or connect with \
            `leasehold::blocking::Client::connect`"
)]
pub trait BlockingClient {
    /// Returns the client.
    fn client(&self) -> &crate::blocking::Client;
}

#[cfg(feature = "blocking")]
impl BlockingClient for crate::blocking::Client {
    fn client(&self) -> &crate::blocking::Client {
        self
    }
}

#[cfg(feature = "blocking")]
#[diagnostic::do_not_recommend]
impl<T: Deref<Target: BlockingClient> + ?Sized> BlockingClient for T {
    fn client(&self) -> &crate::blocking::Client {
        (**self).client()
    }
}
