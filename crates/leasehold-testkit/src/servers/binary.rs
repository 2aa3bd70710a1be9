//! The server and the command line client to run.
//!
//! Invariant: the choice is made once per process, so all servers of a test run are the same.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The variable that names the server under test.
const SERVER_VARIABLE: &str = "LEASEHOLD_REDIS_SERVER";

/// A server program, and its version.
#[derive(Debug)]
pub(crate) struct Binary {
    path: PathBuf,
    is_valkey: bool,
    major: u32,
}

impl Binary {
    /// Returns the server of this test run.
    ///
    /// # Panics
    /// Panics if there is none, with the command that provides it.
    pub(crate) fn find() -> &'static Self {
        static FOUND: OnceLock<Binary> = OnceLock::new();
        FOUND.get_or_init(|| match env::var_os(SERVER_VARIABLE) {
            Some(named) => Self::at(Path::new(&named)).unwrap_or_else(|| {
                panic!("{SERVER_VARIABLE} names {}, which does not run: correct or unset it", named.display())
            }),
            None => ["redis-server", "valkey-server"]
                .iter()
                .find_map(|name| Self::at(Path::new(name)))
                .unwrap_or_else(|| {
                    panic!(
                        "no redis-server or valkey-server on PATH: run `cargo x test`, which installs it, \
                         or install the package redis-server (redis on dnf, apk, pacman and brew), \
                         or set {SERVER_VARIABLE} to the path of a server"
                    )
                }),
        })
    }

    fn at(path: &Path) -> Option<Self> {
        let output = Command::new(path).arg("--version").stdin(Stdio::null()).output().ok()?;
        let (is_valkey, major) = parse_version(&String::from_utf8_lossy(&output.stdout))?;
        Some(Self { path: path.to_owned(), is_valkey, major })
    }

    /// Returns the program to run.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if DEBUG is off unless the configuration allows it. Older servers reject the setting.
    pub(crate) fn guards_debug(&self) -> bool {
        self.is_valkey || self.major >= 7
    }

    /// Returns the command line clients that may talk to this server, the likeliest first.
    pub(crate) fn cli_candidates(&self) -> Vec<OsString> {
        let beside = |name: &str| self.path.parent().map(|folder| folder.join(name).into_os_string());
        let names = if self.is_valkey { ["valkey-cli", "redis-cli"] } else { ["redis-cli", "valkey-cli"] };
        names.iter().filter_map(|name| beside(name)).chain(names.iter().map(OsString::from)).collect()
    }
}

/// Parses `Redis server v=7.0.15 sha=...` into true for Valkey, and the major version.
fn parse_version(line: &str) -> Option<(bool, u32)> {
    let version = line.split_whitespace().find_map(|word| word.strip_prefix("v="))?;
    let major = version.split('.').next()?.parse().ok()?;
    Some((line.starts_with("Valkey"), major))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_lines_of_both_servers_are_parsed() {
        assert_eq!(parse_version("Redis server v=6.2.14 sha=00000000:0 bits=64"), Some((false, 6)));
        assert_eq!(parse_version("Valkey server v=8.1.0 sha=00000000:0 bits=64"), Some((true, 8)));
        assert_eq!(parse_version("command not found"), None);
    }
}
