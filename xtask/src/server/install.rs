//! Installing a server with the system's package manager.
//!
//! Invariant: an installation never prompts the user and never exceeds the user's rights. An error says what to do
//! instead.

use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use super::VARIABLE;
use crate::shell;

/// The programs of a machine, for which tests have a fake.
pub(crate) trait Machine {
    /// Runs a program quietly and returns its output if it succeeds.
    fn output_of(&self, program: &str, arguments: &[&str]) -> Option<String>;
    /// Runs a program, the first of the words, with its output on the terminal.
    fn run(&self, words: &[&str]) -> Result<()>;
}

/// The machine that this program runs on.
pub(crate) struct ThisMachine;

impl Machine for ThisMachine {
    fn output_of(&self, program: &str, arguments: &[&str]) -> Option<String> {
        shell::output(Command::new(program).args(arguments)).ok()
    }

    fn run(&self, words: &[&str]) -> Result<()> {
        shell::run(Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()))
    }
}

/// A package manager and the packages that may contain a server, the likeliest first.
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

/// Installs a server. Tries one package after the other.
pub(super) fn install(machine: &impl Machine) -> Result<()> {
    let is_here = |manager: &&Manager| machine.output_of(manager.program, &["--version"]).is_some();
    let Some(manager) = MANAGERS.iter().find(is_here) else {
        bail!(
            "no known package manager here: install redis-server or valkey-server, or set {VARIABLE} to its path"
        );
    };
    let by_hand = format!("{} {} {}", manager.program, manager.install.join(" "), manager.packages[0]);
    let Some(prefix) = privilege(machine, manager.needs_root) else {
        bail!(
            "no server is installed, and installing one needs root: run `sudo {by_hand}`, or set {VARIABLE}"
        );
    };
    if !manager.refresh.is_empty() {
        // An outdated list may suffice. If it does not, the installation fails with a message.
        if let Err(error) = machine.run(&words(prefix, manager.program, manager.refresh)) {
            println!("going on with the package lists that are here: {error:#}");
        }
    }
    for package in manager.packages {
        let arguments: Vec<_> = manager.install.iter().copied().chain(package.split(' ')).collect();
        match machine.run(&words(prefix, manager.program, &arguments)) {
            Ok(()) => return Ok(()),
            Err(error) => println!("{error:#}"),
        }
    }
    bail!("{} could not install a server: run `{by_hand}` to see why, or set {VARIABLE}", manager.program)
}

/// The words before a command that run it as root: none, or `sudo`. `None` if root needs a password.
pub(crate) fn privilege(machine: &impl Machine, needs_root: bool) -> Option<&'static [&'static str]> {
    if !needs_root || machine.output_of("id", &["-u"]).is_some_and(|id| id.trim() == "0") {
        Some(&[])
    } else if machine.output_of("sudo", &["-n", "true"]).is_some() {
        Some(&["sudo", "-n"])
    } else {
        None
    }
}

/// Builds the command line of a package manager.
pub(crate) fn words<'a>(prefix: &[&'a str], program: &'a str, arguments: &[&'a str]) -> Vec<&'a str> {
    // Needs `env`, because sudo does not pass variables on. Without the variable apt may stop and prompt.
    [prefix, &["env", "DEBIAN_FRONTEND=noninteractive", program], arguments].concat()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use anyhow::ensure;

    use super::*;

    /// A machine with these programs and packages. It records each command that it ran.
    struct FakeMachine {
        programs: &'static [&'static str],
        user: &'static str,
        packages: &'static [&'static str],
        ran: RefCell<Vec<String>>,
    }

    impl FakeMachine {
        fn new(
            programs: &'static [&'static str],
            user: &'static str,
            packages: &'static [&'static str],
        ) -> Self {
            Self { programs, user, packages, ran: RefCell::default() }
        }

        fn refusal(&self) -> String {
            install(self).unwrap_err().to_string()
        }
    }

    impl Machine for FakeMachine {
        fn output_of(&self, program: &str, _arguments: &[&str]) -> Option<String> {
            if program == "id" {
                return Some(format!("{}\n", self.user));
            }
            self.programs.contains(&program).then(String::new)
        }

        fn run(&self, words: &[&str]) -> Result<()> {
            self.ran.borrow_mut().push(words.join(" "));
            let last = words[words.len() - 1];
            ensure!(last == "update" || self.packages.contains(&last), "no package {last}");
            Ok(())
        }
    }

    const AS_ROOT: &str = "0";
    const UPDATE: &str = "env DEBIAN_FRONTEND=noninteractive apt-get update";
    const INSTALL: &str =
        "env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends redis-server";

    #[test]
    fn the_first_package_is_installed_from_fresh_lists() {
        let machine = FakeMachine::new(&["apt-get"], AS_ROOT, &["redis-server", "valkey-server"]);
        install(&machine).unwrap();
        assert_eq!(*machine.ran.borrow(), [UPDATE, INSTALL]);
    }

    #[test]
    fn where_the_first_package_is_missing_the_next_one_is_installed() {
        let machine = FakeMachine::new(&["apt-get"], AS_ROOT, &["valkey-server"]);
        install(&machine).unwrap();
        assert_eq!(*machine.ran.borrow(), [UPDATE, INSTALL, &INSTALL.replace("redis", "valkey")]);
    }

    #[test]
    fn without_any_package_the_error_says_how_to_see_why() {
        let error = FakeMachine::new(&["apt-get"], AS_ROOT, &[]).refusal();
        assert!(error.contains("`apt-get install -y --no-install-recommends redis-server`"), "{error}");
    }

    #[test]
    fn without_a_package_manager_the_error_says_what_to_install() {
        let machine = FakeMachine::new(&["sudo"], AS_ROOT, &["redis-server"]);
        let error = machine.refusal();
        assert!(
            error.contains("install redis-server or valkey-server") && error.contains(VARIABLE),
            "{error}"
        );
        assert!(machine.ran.borrow().is_empty());
    }

    #[test]
    fn without_root_and_sudo_nothing_is_run_and_the_error_says_what_to_run() {
        let machine = FakeMachine::new(&["apt-get"], "1000", &["redis-server"]);
        let error = machine.refusal();
        let by_hand = "run `sudo apt-get install -y --no-install-recommends redis-server`";
        assert!(error.contains(by_hand) && error.contains(VARIABLE), "{error}");
        assert!(machine.ran.borrow().is_empty());
    }

    #[test]
    fn what_needs_root_is_run_by_sudo_and_what_does_not_is_run_as_oneself() {
        let machine = FakeMachine::new(&["apt-get", "sudo"], "1000", &["redis-server"]);
        install(&machine).unwrap();
        assert_eq!(machine.ran.borrow()[1], format!("sudo -n {INSTALL}"));
        let machine = FakeMachine::new(&["brew"], "1000", &["redis"]);
        install(&machine).unwrap();
        assert_eq!(*machine.ran.borrow(), ["env DEBIAN_FRONTEND=noninteractive brew install redis"]);
    }
}
