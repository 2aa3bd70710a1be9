//! The server that the tests run against, found on this machine, or installed with apt when there is none.
//!
//! Invariant: the search visits the same places as the search of `leasehold-testkit`, in the same order. This crate
//! does not depend on the testkit, so the verbs run while the testkit does not compile.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fmt};

use anyhow::{Context, Result, bail};

use crate::apt::{self, ThisMachine};
use crate::shell::output;

pub(crate) const VARIABLE: &str = "LEASEHOLD_REDIS_SERVER";
/// The Debian package of the first program.
const PACKAGE: &str = "redis-server";
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

/// A server program that runs on this machine.
pub(crate) struct Server {
    path: PathBuf,
    version: String,
}

impl Server {
    /// Returns the path of the program.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true for a Valkey, also if its file is called `redis-server`.
    pub(crate) fn is_valkey(&self) -> bool {
        self.version.starts_with("Valkey ")
    }
}

impl fmt::Display for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.path.display(), self.version)
    }
}

/// Returns all usable servers. The tests use the first server.
pub(crate) fn installed() -> Vec<Server> {
    let named = env::var_os(VARIABLE).map(PathBuf::from);
    let mut folders: Vec<_> = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
    // A folder may be a link to another, as /bin often is, and its server would be listed twice.
    let mut seen = HashSet::new();
    folders.retain(|folder| folder.canonicalize().is_ok_and(|folder| seen.insert(folder)));
    let found = PROGRAMS.iter().flat_map(|program| folders.iter().map(move |folder| folder.join(program)));
    named.into_iter().chain(found.filter(|path| path.is_file())).filter_map(at).collect()
}

/// Returns the server for the tests, installed first if necessary.
pub(crate) fn ensure_installed() -> Result<Server> {
    if let Some(named) = env::var_os(VARIABLE) {
        // Installing another server would not help, because the tests use the named server.
        let named = PathBuf::from(named);
        let Some(server) = at(named.clone()) else {
            bail!("{VARIABLE} names {}, which does not run: correct or unset it", named.display());
        };
        return Ok(server);
    }
    if let Some(server) = installed().into_iter().next() {
        return Ok(server);
    }
    println!("no redis-server or valkey-server on PATH: installing one");
    apt::install(&ThisMachine, &[PACKAGE]).with_context(|| {
        format!("no server is installed; install {} or set {VARIABLE} to its path", PROGRAMS.join(" or "))
    })?;
    match installed().into_iter().next() {
        Some(server) => Ok(server),
        None => bail!("the package was installed, and yet no {} is on PATH", PROGRAMS.join(" or ")),
    }
}

/// Returns the server at this path, if it runs.
pub(crate) fn at(path: PathBuf) -> Option<Server> {
    let printed = output(Command::new(&path).arg("--version")).ok()?;
    let version = version_in(&printed)?;
    Some(Server { path, version })
}

/// Reads `Redis server v=7.0.15 sha=...` as `Redis 7.0.15`.
fn version_in(printed: &str) -> Option<String> {
    let maker = printed.split_whitespace().next()?;
    let number = printed.split_whitespace().find_map(|word| word.strip_prefix("v="))?;
    Some(format!("{maker} {number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_parsed_from_server_output() {
        assert_eq!(version_in("Redis server v=7.0.15 sha=0 bits=64").unwrap(), "Redis 7.0.15");
        assert_eq!(version_in("Valkey server v=8.1.0 sha=0 bits=64").unwrap(), "Valkey 8.1.0");
        assert_eq!(version_in("usage: something else"), None);
    }
}
