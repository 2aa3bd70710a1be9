//! The fuzz targets. Each is a function from bytes to a panic or nothing.
//!
//! Invariant: a target does the same for the same bytes, and panics only if the library has broken a promise.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "test code; the time of its runtime is virtual")]

mod commands;
mod listener;
mod names;
mod replies;
mod resp;
mod step;
mod urls;
mod virtual_time;
mod wire_inputs;

pub use commands::commands;
pub use listener::listener;
pub use names::names;
pub use replies::replies;
pub use step::step;
pub use urls::urls;
pub use wire_inputs::wire;

/// A target: its name and its function.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 7] = [
    ("commands", commands),
    ("listener", listener),
    ("names", names),
    ("replies", replies),
    ("step", step),
    ("urls", urls),
    ("wire", wire),
];
