//! Traits in the code that the attribute [`locked`](macro@crate::locked) generates. They let the compiler's errors
//! name the user's function.
//!
//! Invariant: only generated code uses this module, and it may change with any version.

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
