//! The verbs, one file each.
//!
//! Invariant: a verb takes the arguments after its name, and reports a failure as an error.

pub(crate) mod alerts;
pub(crate) mod bench;
pub(crate) mod counts;
pub(crate) mod demo;
pub(crate) mod fix;
pub(crate) mod fleets;
pub(crate) mod fuzz;
pub(crate) mod hunt;
pub(crate) mod interleave;
pub(crate) mod interop;
pub(crate) mod mutants;
pub(crate) mod package;
pub(crate) mod page;
pub(crate) mod scale;
pub(crate) mod servers;
pub(crate) mod sim;
pub(crate) mod test;
pub(crate) mod tidy;
pub(crate) mod valkey;
pub(crate) mod verify;

use anyhow::{Result, ensure};

/// Rejects arguments, in verbs that take none.
fn take_none(arguments: &[String]) -> Result<()> {
    ensure!(arguments.is_empty(), "this verb takes no arguments, and was given {}", arguments.join(" "));
    Ok(())
}
