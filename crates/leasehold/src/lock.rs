//! The locks.

mod reentrant;

pub use reentrant::{IntoName, Lock};
