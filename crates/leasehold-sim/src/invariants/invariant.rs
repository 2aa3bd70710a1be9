//! The interface of an observer.
//!
//! Invariant: an observer gets the events and the view, and nothing else.

use crate::history::Event;
use crate::recorder::view::View;

/// An observer of one promise.
pub(crate) trait Invariant: Send {
    /// Returns the ids of the promises in `docs/guarantees.md`.
    fn id(&self) -> &'static str;

    /// Observes an event.
    ///
    /// # Errors
    /// Describes the violation, if the promise is broken.
    fn see(&mut self, event: &Event, view: &View) -> Result<(), String>;

    /// Observes the passage of time.
    ///
    /// # Errors
    /// Describes the overdue action, if the promise is broken.
    fn check_time(&mut self, _view: &View) -> Result<(), String> {
        Ok(())
    }
}
