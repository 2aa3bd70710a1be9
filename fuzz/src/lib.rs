//! What is tried with inputs that nobody thought of: one function for each target, from bytes to a panic or nothing.
//!
//! Invariant: a target does the same thing for the same bytes, and panics only when the library has broken a promise.
//! Called by: the programs in `fuzz_targets/`, which libFuzzer drives, beginning with the committed inputs.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "test code; the time of its runtime is virtual")]

mod commands;
mod listener;
mod names;
mod replies;
mod step;
mod urls;
mod virtual_time;
mod wire;

pub use commands::commands;
pub use listener::listener;
pub use names::names;
pub use replies::replies;
pub use step::step;
pub use urls::urls;

/// A target's name and what it does.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 6] = [
    ("commands", commands),
    ("listener", listener),
    ("names", names),
    ("replies", replies),
    ("step", step),
    ("urls", urls),
];
