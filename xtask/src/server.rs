//! The server that the tests run against: finding it, and installing one when there is none.
//!
//! Invariant: looks where `leasehold-testkit` looks, in the same order. (It does not depend on that crate, so that the
//! verbs run while it does not compile.)
//! Called by: the verbs `test`, `verify` and `servers`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fmt};

use anyhow::{Result, bail};

use crate::shell::{output, run, succeeds};

const VARIABLE: &str = "LEASEHOLD_REDIS_SERVER";
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

/// A server program that runs.
pub(crate) struct Server {
    path: PathBuf,
    version: String,
}

impl Server {
    /// The program.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.path.display(), self.version)
    }
}

/// A package manager and the packages that may bring a server, the likeliest first.
struct Manager {
    program: &'static str,
    needs_root: bool,
    refresh: &'static [&'static str],
    install: &'static [&'static str],
    packages: &'static [&'static str],
}

const MANAGERS: [Manager; 5] = [
    Manager {
        program: "apt-get",
        needs_root: true,
        refresh: &["update"],
        install: &["install", "-y", "--no-install-recommends"],
        packages: &["redis-server", "valkey-server"],
    },
    Manager {
        program: "dnf",
        needs_root: true,
        refresh: &[],
        install: &["install", "-y"],
        packages: &["redis", "valkey"],
    },
    Manager {
        program: "apk",
        needs_root: true,
        refresh: &["update"],
        install: &["add"],
        packages: &["redis", "valkey valkey-cli"],
    },
    Manager {
        program: "pacman",
        needs_root: true,
        refresh: &[],
        install: &["-Sy", "--noconfirm"],
        packages: &["valkey", "redis"],
    },
    Manager {
        program: "brew",
        needs_root: false,
        refresh: &[],
        install: &["install"],
        packages: &["redis", "valkey"],
    },
];

/// All servers that can be used, the one that the tests use first.
pub(crate) fn installed() -> Vec<Server> {
    let named = env::var_os(VARIABLE).map(PathBuf::from);
    let mut folders: Vec<_> = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
    // Where one folder is a link to another, as /bin often is, a server would show up twice.
    let mut seen = HashSet::new();
    folders.retain(|folder| folder.canonicalize().is_ok_and(|folder| seen.insert(folder)));
    let found = PROGRAMS.iter().flat_map(|program| folders.iter().map(move |folder| folder.join(program)));
    named.into_iter().chain(found.filter(|path| path.is_file())).filter_map(ask_version).collect()
}

/// The server for the tests, installed first if need be.
pub(crate) fn ensure_installed() -> Result<Server> {
    if let Some(named) = env::var_os(VARIABLE) {
        // Installing another one would not help: the tests use the one that is named.
        let named = PathBuf::from(named);
        let Some(server) = ask_version(named.clone()) else {
            bail!("{VARIABLE} names {}, which does not run: correct or unset it", named.display());
        };
        return Ok(server);
    }
    if let Some(server) = installed().into_iter().next() {
        return Ok(server);
    }
    println!("no redis-server or valkey-server on PATH: installing one");
    install()?;
    match installed().into_iter().next() {
        Some(server) => Ok(server),
        None => bail!("the package was installed, and yet no {} is on PATH", PROGRAMS.join(" or ")),
    }
}

fn install() -> Result<()> {
    let Some(manager) = MANAGERS.iter().find(|manager| succeeds(manager.program, &["--version"])) else {
        bail!(
            "no known package manager here: install redis-server or valkey-server, or set {VARIABLE} to its path"
        );
    };
    let by_hand = format!("{} {} {}", manager.program, manager.install.join(" "), manager.packages[0]);
    let Some(prefix) = privilege(manager.needs_root) else {
        bail!(
            "no server is installed, and installing one needs root: run `sudo {by_hand}`, or set {VARIABLE}"
        );
    };
    if !manager.refresh.is_empty() {
        // A list that is out of date may do; if it does not, the installation says so.
        if let Err(error) = run(&mut manage(prefix, manager.program, manager.refresh)) {
            println!("going on with the package lists that are here: {error:#}");
        }
    }
    for package in manager.packages {
        let arguments: Vec<_> = manager.install.iter().copied().chain(package.split(' ')).collect();
        match run(&mut manage(prefix, manager.program, &arguments)) {
            Ok(()) => return Ok(()),
            Err(error) => println!("{error:#}"),
        }
    }
    bail!("{} could not install a server: run `{by_hand}` to see why, or set {VARIABLE}", manager.program)
}

/// What to put before a command to run it as root: nothing, `sudo`, or it cannot be done without a password.
fn privilege(needs_root: bool) -> Option<&'static [&'static str]> {
    let is_root = || output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    if !needs_root || is_root() {
        Some(&[])
    } else if succeeds("sudo", &["-n", "true"]) {
        Some(&["sudo", "-n"])
    } else {
        None
    }
}

fn manage(prefix: &[&str], program: &str, arguments: &[&str]) -> Command {
    // `env`, because sudo does not pass variables on; without it apt may stop and ask.
    let words = [prefix, &["env", "DEBIAN_FRONTEND=noninteractive", program], arguments].concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(std::process::Stdio::null());
    command
}

fn ask_version(path: PathBuf) -> Option<Server> {
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
    fn versions_are_read_from_what_servers_print() {
        assert_eq!(version_in("Redis server v=7.0.15 sha=0 bits=64").unwrap(), "Redis 7.0.15");
        assert_eq!(version_in("Valkey server v=8.1.0 sha=0 bits=64").unwrap(), "Valkey 8.1.0");
        assert_eq!(version_in("usage: something else"), None);
    }

    #[test]
    fn a_privileged_command_starts_with_what_gives_the_privilege() {
        let command = manage(&["sudo", "-n"], "apt-get", &["update"]);
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        assert_eq!(command.get_program(), "sudo");
        assert_eq!(words, ["-n", "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "update"]);
    }
}
