//! Installation of packages with apt, the one package manager that the verbs know.
//!
//! Invariant: an installation never prompts the user and never exceeds the user's rights. An error says what to do
//! instead.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

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

/// Installs packages, as root or with a sudo that needs no password.
pub(crate) fn install(machine: &impl Machine, packages: &[&str]) -> Result<()> {
    let packages = packages.join(" ");
    if machine.output_of("apt-get", &["--version"]).is_none() {
        bail!("this machine has no apt-get; install the counterpart of these Debian packages: {packages}");
    }
    let by_hand = format!("apt-get install {packages}");
    let is_root = machine.output_of("id", &["-u"]).is_some_and(|id| id.trim() == "0");
    if !is_root && machine.output_of("sudo", &["-n", "true"]).is_none() {
        bail!("an installation needs root; run `sudo {by_hand}`");
    }
    // Needs `env`, because sudo does not pass variables on. Without the variable apt may stop and prompt.
    let apt = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"];
    let apt = [if is_root { &[][..] } else { &["sudo", "-n"] }, &apt].concat();
    // An outdated list may suffice. If it does not, the installation fails with a message.
    if let Err(error) = machine.run(&[&apt[..], &["update"]].concat()) {
        println!("the package lists stay as they are: {error:#}");
    }
    let install = [&apt[..], &["install", "-y", "--no-install-recommends"]].concat();
    let words: Vec<&str> = install.into_iter().chain(packages.split(' ')).collect();
    machine.run(&words).with_context(|| format!("`{by_hand}` failed"))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use anyhow::ensure;

    use super::*;

    /// A machine with these programs. It records each command that it ran.
    struct FakeMachine {
        programs: &'static [&'static str],
        user: &'static str,
        fails: &'static str,
        ran: RefCell<Vec<String>>,
    }

    impl FakeMachine {
        fn new(programs: &'static [&'static str], user: &'static str, fails: &'static str) -> Self {
            Self { programs, user, fails, ran: RefCell::default() }
        }

        fn refusal(&self) -> String {
            format!("{:#}", install(self, &["redis-server"]).unwrap_err())
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
            ensure!(!words.contains(&self.fails), "no network");
            Ok(())
        }
    }

    const AS_ROOT: &str = "0";
    const UPDATE: &str = "env DEBIAN_FRONTEND=noninteractive apt-get update";
    const INSTALL: &str =
        "env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends redis-server";

    #[test]
    fn a_package_is_installed_from_fresh_lists_or_the_present_ones() {
        for fails in ["nothing", "update"] {
            let machine = FakeMachine::new(&["apt-get"], AS_ROOT, fails);
            install(&machine, &["redis-server"]).unwrap();
            assert_eq!(*machine.ran.borrow(), [UPDATE, INSTALL], "{fails}");
        }
        let machine = FakeMachine::new(&["apt-get"], AS_ROOT, "nothing");
        install(&machine, &["openjdk", "maven"]).unwrap();
        assert_eq!(machine.ran.borrow()[1], INSTALL.replace("redis-server", "openjdk maven"));
    }

    #[test]
    fn a_failed_installation_explains_how_to_find_the_cause() {
        let error = FakeMachine::new(&["apt-get"], AS_ROOT, "install").refusal();
        assert!(
            error.contains("`apt-get install redis-server` failed") && error.contains("no network"),
            "{error}"
        );
    }

    #[test]
    fn without_apt_the_error_names_the_packages_to_install() {
        let machine = FakeMachine::new(&["sudo", "dnf"], AS_ROOT, "nothing");
        let error = machine.refusal();
        assert!(error.contains("no apt-get") && error.ends_with("redis-server"), "{error}");
        assert!(machine.ran.borrow().is_empty());
    }

    #[test]
    fn without_root_and_sudo_nothing_runs_and_the_error_names_the_command() {
        let machine = FakeMachine::new(&["apt-get"], "1000", "nothing");
        let error = machine.refusal();
        assert!(error.contains("run `sudo apt-get install redis-server`"), "{error}");
        assert!(machine.ran.borrow().is_empty());
    }

    #[test]
    fn sudo_runs_apt_for_other_users() {
        let machine = FakeMachine::new(&["apt-get", "sudo"], "1000", "nothing");
        install(&machine, &["redis-server"]).unwrap();
        assert_eq!(machine.ran.borrow()[1], format!("sudo -n {INSTALL}"));
    }
}
