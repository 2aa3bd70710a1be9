//! A network of a program's own, with the loopback interface alone, so that packets can be lost in it.
//!
//! Invariant: no interface and no packet filter of the machine changes.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::apt::{self, ThisMachine};
use crate::shell::{self, output};

/// The programs that a private network needs, each with its Debian package.
const PROGRAMS: [(&str, &str); 3] = [("unshare", "util-linux"), ("ip", "iproute2"), ("iptables", "iptables")];
/// The folders of system programs, which the PATH of a user does not have everywhere.
const SYSTEM: [&str; 2] = ["/usr/sbin", "/sbin"];
/// Starts the loopback interface, which is down in a new network, and becomes the program.
const ENTER: &str = r#"ip link set lo up && exec "$@""#;

/// Returns a command that runs a program in a network of its own.
///
/// # Errors
/// The machine does not allow such a network, or lacks a program that cannot be installed.
pub(crate) fn command(program: &Command) -> Result<Command> {
    let missing: Vec<&str> =
        PROGRAMS.iter().filter(|(name, _)| !is_on_path(name)).map(|(_, package)| *package).collect();
    if !missing.is_empty() {
        apt::install(&ThisMachine, &missing)?;
    }
    let mut probe = Command::new("iptables");
    probe.args(["-w", "-S", "INPUT"]);
    for rights in [&[][..], &["--user", "--map-root-user"]] {
        if output(&mut wrapped(&probe, rights)?).is_ok() {
            return wrapped(program, rights);
        }
    }
    bail!("this machine does not allow a network of a program's own with a packet filter")
}

fn is_on_path(program: &str) -> bool {
    folders().any(|folder| folder.join(program).is_file())
}

fn folders() -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&path).chain(SYSTEM.map(PathBuf::from)).collect();
    folders.into_iter()
}

/// Wraps a program, with its folder, into `unshare`, by root or by a user who is root in the new network alone.
fn wrapped(program: &Command, rights: &[&str]) -> Result<Command> {
    let mut command = Command::new("unshare");
    command.args(rights).args(["--net", "--", "sh", "-c", ENTER, "sh"]);
    command.arg(program.get_program()).args(program.get_args());
    command.current_dir(program.get_current_dir().map_or_else(shell::root, |folder| Ok(folder.to_owned()))?);
    command.env("PATH", env::join_paths(folders()).context("a folder of PATH has a colon")?);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_program_keeps_its_words_and_its_folder() {
        let mut program = Command::new("redis-server");
        program.args(["--port", "0"]).current_dir("/tmp");
        let command = wrapped(&program, &["--user"]).unwrap();
        let words: Vec<_> = command.get_args().filter_map(OsStr::to_str).collect();
        assert_eq!(words, ["--user", "--net", "--", "sh", "-c", ENTER, "sh", "redis-server", "--port", "0"]);
        assert_eq!(command.get_current_dir(), Some(Path::new("/tmp")));
    }
}
