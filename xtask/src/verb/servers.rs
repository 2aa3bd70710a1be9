//! `cargo x servers`: lists the servers that the tests can use.
//!
//! Invariant: the verb installs nothing.

use anyhow::Result;

use super::take_none;
use crate::server;

/// Lists the servers of this machine. The tests use the first.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    take_none(arguments)?;
    let found = server::installed();
    if found.is_empty() {
        println!("no server found; `cargo x test` installs one");
    }
    for (place, server) in found.iter().enumerate() {
        println!("{server}{}", if place == 0 { "  <- used by the tests" } else { "" });
    }
    Ok(())
}
