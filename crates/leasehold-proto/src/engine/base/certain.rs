//! Values that are there unless the engine has a bug.
//!
//! Invariant: a missing value ends the step of one hold or waiter in production, and the process in tests and in the
//! simulator.

/// The reason why a hold has a state.
pub(in crate::engine) const HELD: &str = "a hold is kept while a guard, a call or a timer names it";

/// The reason why a hold is in the phase of its call.
pub(in crate::engine) const IN_PHASE: &str =
    "a hold stays in its phase while the call of the phase is planned";
/// The reason why a wait queue is there.
pub(in crate::engine) const OPEN: &str = "a queue is open while a waiter, an attempt or a timer names it";
/// The reason why an acquire is there.
pub(in crate::engine) const WAITING: &str = "an acquire is kept while a queue or an attempt names it";

/// An option that the engine's invariants fill.
pub(in crate::engine) trait Certain: Sized {
    /// Returns the option as it is.
    ///
    /// # Panics
    /// With debug assertions, if there is no value. `invariant` says why there is one.
    #[track_caller]
    fn certain(self, invariant: &str) -> Self;
}

impl<T> Certain for Option<T> {
    fn certain(self, invariant: &str) -> Self {
        debug_assert!(self.is_some(), "the engine is wrong: {invariant}");
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_passes() {
        assert_eq!(Some(1).certain("one is there"), Some(1));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "the engine is wrong: one is there")]
    fn a_missing_value_panics_with_the_invariant() {
        let _ = None::<u8>.certain("one is there");
    }
}
