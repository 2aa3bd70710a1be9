//! The verbs of the command line, one file each.
//!
//! Invariant: each says by its exit code how it went.
//! Called by: `main` of the library.

pub(crate) mod config;
pub(crate) mod run;
