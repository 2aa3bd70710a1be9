//! What the code that the attribute writes says by traits, so that the compiler's errors speak of the function.
//!
//! Invariant: nothing here is for anybody else; it may change with any version.
//! Called by: functions under [`locked`](macro@crate::locked).

use crate::error::RunError;

/// What a locked function returns.
#[diagnostic::on_unimplemented(
    message = "a locked function cannot return `{Self}`",
    label = "cannot say that the body did not run",
    note = "a locked function returns a `Result` whose error implements `From<leasehold::RunError>`, so that it can say \
            that its body did not run",
    note = "`leasehold::RunError`, `leasehold::Error`, `anyhow::Error` and `Box<dyn std::error::Error>` are such errors; \
            to one of your own add `impl From<leasehold::RunError>`"
)]
pub trait LockedOutput {
    /// Of a body that did not run, or that lost its lock.
    fn refused(error: impl Into<RunError>) -> Self;
}

/// What a locked function returns that may be skipped.
#[diagnostic::on_unimplemented(
    message = "a locked function that may be skipped cannot return `{Self}`",
    label = "has no value for a body that was skipped",
    note = "`on_busy = skip` returns `Ok(Default::default())`, so the function returns a `Result<T, E>` with `T: Default`, \
            such as `()`, `Option<T>` or `bool`",
    note = "for a value of another kind write `on_busy = fallback(function)`"
)]
pub trait SkippedOutput {
    /// Of a body that was skipped.
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
