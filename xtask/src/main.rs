//! The verbs of this repository, run as `cargo x <verb>`.
//!
//! Invariant: each check of CI is a verb, so no check exists only in CI.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "printing what it does, and how long that took, is the job of this program"
)]

mod apt;
mod interop;
mod metadata;
mod mutants;
mod private_network;
mod server;
mod shell;
mod tidy;
mod toolchains;
mod verb;

use std::process::ExitCode;

use anyhow::{Result, bail};

/// A verb, as listed by `--help`.
struct Verb {
    name: &'static str,
    purpose: &'static str,
    run: fn(&[String]) -> Result<()>,
}

const VERBS: [Verb; 20] = [
    Verb {
        name: "demo",
        purpose: "show two clients that want one lock, without a server; takes --server, and then a program of yours",
        run: verb::demo::run,
    },
    Verb {
        name: "verify",
        purpose: "check a change, and change no file; --all runs what CI runs; takes names of parts",
        run: verb::verify::run,
    },
    Verb { name: "fix", purpose: "format, and apply what clippy can repair by itself", run: verb::fix::run },
    Verb {
        name: "test",
        purpose: "run all tests, after installing a server if none is there; takes arguments of cargo test",
        run: verb::test::run,
    },
    Verb {
        name: "interleave",
        purpose: "run the library's threads in the orders that a scheduler finds; takes how many",
        run: verb::interleave::run,
    },
    Verb {
        name: "interop",
        purpose: "run the tests against the real Redisson, and with plain those of libraries in Python, Node, Go and Rust; takes --all and arguments of the test program",
        run: verb::interop::run,
    },
    Verb {
        name: "fleets",
        purpose: "inject random faults into real fleets and judge the locks; takes --minutes or --rounds, --seed, --topology, --faults, --secured",
        run: verb::fleets::run,
    },
    Verb {
        name: "fuzz",
        purpose: "search for inputs that break something; takes --seconds, a target, and files for it",
        run: verb::fuzz::run,
    },
    Verb {
        name: "hunt",
        purpose: "search for a night: all mutants, and the simulator and the fuzz targets for --minutes each",
        run: verb::hunt::run,
    },
    Verb {
        name: "sim",
        purpose: "simulate for a while, in each of the three modes; takes --minutes",
        run: verb::sim::run,
    },
    Verb {
        name: "mutants",
        purpose: "break the code on purpose and see it found; takes parts of names, --share 1/4, --each 1 and --refresh",
        run: verb::mutants::run,
    },
    Verb {
        name: "package",
        purpose: "build every crate from the files that would be published",
        run: verb::package::run,
    },
    Verb { name: "tidy", purpose: "check the rules that no compiler checks", run: verb::tidy::run },
    Verb {
        name: "valkey",
        purpose: "run the contract of stores on a Valkey, fetched with pip if none is installed",
        run: verb::valkey::run,
    },
    Verb {
        name: "alerts",
        purpose: "check the alerts of the documentation and run their tests, after installing promtool if it is not there",
        run: verb::alerts::run,
    },
    Verb {
        name: "page",
        purpose: "test the page of the dashboard in a headless Chromium, after installing it if it is not there",
        run: verb::page::run,
    },
    Verb { name: "servers", purpose: "show which servers the tests can use", run: verb::servers::run },
    Verb {
        name: "bench",
        purpose: "measure an uncontended lock, with peers other libraries, with build a cold build; takes arguments of cargo bench",
        run: verb::bench::run,
    },
    Verb {
        name: "counts",
        purpose: "count the instructions of the engine and the wire, against limits; takes --refresh",
        run: verb::counts::run,
    },
    Verb {
        name: "scale",
        purpose: "measure many waiters, many holds and several processes; takes names of scenarios",
        run: verb::scale::run,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<()> {
    let Some((name, rest)) = arguments.split_first() else {
        bail!("which verb?\n\n{}", help());
    };
    if ["--help", "-h", "help"].contains(&name.as_str()) {
        println!("{}", help());
        return Ok(());
    }
    match VERBS.iter().find(|verb| verb.name == name) {
        Some(verb) => (verb.run)(rest),
        None => bail!("there is no verb {name:?}\n\n{}", help()),
    }
}

fn help() -> String {
    let verbs: String = VERBS.iter().map(|verb| format!("\n  {:<12}{}", verb.name, verb.purpose)).collect();
    format!("usage: cargo x <verb> [arguments]\n{verbs}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_lists_every_verb() {
        assert!(VERBS.iter().all(|verb| help().contains(verb.purpose)));
    }

    #[test]
    fn an_unknown_verb_is_an_error_that_lists_the_known_ones() {
        let error = dispatch(&["vrify".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("\"vrify\"") && error.contains("verify"), "{error}");
    }
}
