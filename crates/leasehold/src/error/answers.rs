//! The four methods that every error has.
//!
//! Invariant: each error says of each method why it returns what it returns.

/// Implements the four methods of an error. `self` is written here, because the values use it. A `const` method is a
/// `const fn`, and an `fn` method is not.
macro_rules! answers {
    ($this:ident: $error:ty => $($(#[$doc:meta])+ $fn:ident $name:ident = $value:expr;)+) => {
        impl $error {
            $($crate::error::answers::answer! { $fn $this $name $value, $(#[$doc])+ })+
        }
    };
}

macro_rules! answer {
    (const $this:ident $name:ident $value:expr, $(#[$doc:meta])+) => {
        $(#[$doc])+
        #[must_use]
        pub const fn $name(&$this) -> bool {
            $value
        }
    };
    (fn $this:ident $name:ident $value:expr, $(#[$doc:meta])+) => {
        $(#[$doc])+
        #[must_use]
        pub fn $name(&$this) -> bool {
            $value
        }
    };
}

/// Implements the four methods of an error for which all are false.
macro_rules! none_of_them {
    ($($error:ty),*) => {
        $($crate::error::answers::answers! { self: $error =>
            /// Always returns false, since no server takes part.
            const is_busy = false;
            /// Always returns false, since no server takes part.
            const is_unavailable = false;
            /// Always returns false, since the same call fails again.
            const is_retryable = false;
            /// Always returns false, since nothing is held.
            const is_lost = false;
        })*
    };
}

pub(crate) use {answer, answers, none_of_them};
