//! The locks.
//!
//! Invariant: one file for each kind; none uses another.
//! Called by: the client, which makes them; users.

mod reentrant;

pub use reentrant::{IntoName, Lock};
