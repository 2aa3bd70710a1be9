//! The `leasehold` command: run a program while holding a distributed lock.
//!
//! ```text
//! wrapper (leasehold run)          owns the lock, forwards signals, waits
//!   |- watcher (own group)         ends the command's group when the wrapper is gone, or stopped beyond the lease
//!   `- CMD (own group)             started stopped, let go once the watcher knows its group
//! ```
//!
//! The wrapper starts the watcher and the command through hidden verbs of this program.
//!
//! Invariant: the command runs only while the wrapper lives, starts only with the lock held, and learns of a loss even
//! when the wrapper does not run.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};

use arguments::{Arguments, BRIEF, Verb};

mod acl;
mod address;
mod answers;
mod arguments;
mod child;
mod clock;
mod command;
#[cfg(feature = "dashboard")]
mod dashboard;
mod deadline;
mod doctor;
mod duration;
mod exec;
mod exit;
mod fleet;
mod glob;
mod helper;
mod kind;
#[cfg(feature = "dashboard")]
mod listen;
mod on_lost;
mod orders;
mod report;
mod settings;
mod signals;
mod supervise;
mod table;
mod terminal;
#[cfg(feature = "top")]
mod top;
mod watcher;
mod whole_wait;

/// Runs the command line, program name first, and returns the exit code.
///
/// `leasehold run --help` lists the codes.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = arguments.into_iter().collect();
    let parsed = match parse(&words) {
        Ok(parsed) => parsed,
        Err(error) => return refuse(&error),
    };
    match parsed.verb {
        Verb::Run(run) => ExitCode::from(command::run::run(&run)),
        Verb::Elect(elect) => ExitCode::from(command::elect::run(&elect)),
        Verb::Leader(leader) => ExitCode::from(command::leader::run(&leader)),
        Verb::Transfer(transfer) => ExitCode::from(command::leader::transfer(&transfer)),
        Verb::Resign(resign) => ExitCode::from(command::leader::resign(&resign)),
        Verb::List(list) => ExitCode::from(command::list::run(&list)),
        Verb::Show(show) => ExitCode::from(command::show::run(&show)),
        Verb::Clients(clients) => ExitCode::from(command::clients::run(&clients)),
        Verb::Changes(watch) => ExitCode::from(command::watch::run(&watch)),
        Verb::Acquire(acquire) => ExitCode::from(command::tickets::run(&acquire)),
        Verb::Release(release) => ExitCode::from(command::release::run(&release)),
        Verb::Repair(repair) => ExitCode::from(command::repair::run(&repair)),
        Verb::Completions(completions) => ExitCode::from(command::pages::completions(&completions)),
        Verb::Man(man) => ExitCode::from(command::pages::man(&man)),
        #[cfg(feature = "top")]
        Verb::Top(top) => ExitCode::from(top::run(&top)),
        #[cfg(feature = "dashboard")]
        Verb::Dashboard(dashboard) => ExitCode::from(dashboard::run(&dashboard)),
        Verb::Config(config) => ExitCode::from(command::config::run(&config)),
        Verb::Acl(acl) => ExitCode::from(command::acl::run(&acl)),
        Verb::Doctor(doctor) => ExitCode::from(command::doctor::run(&doctor)),
        Verb::Exec(exec) => ExitCode::from(exec::exec(&exec)),
        Verb::Watch => watcher::watch(),
    }
}

/// Parses the command line. `-h` prints the options alone, and `--help` everything.
fn parse(words: &[OsString]) -> Result<Arguments, clap::Error> {
    let command = Arguments::command();
    let mut command = match words.iter().any(|word| word == "-h") {
        true => command.mut_subcommands(|verb| verb.after_help(BRIEF)),
        false => command,
    };
    let mut matches = command.try_get_matches_from_mut(words)?;
    let parsed = Arguments::from_arg_matches_mut(&mut matches)?;
    if let Verb::Run(run) = &parsed.verb {
        run.check(words).map_err(|why| command.error(ErrorKind::UnknownArgument, why))?;
    }
    Ok(parsed)
}

/// Prints clap's text. Help and version go to stdout with success. All other texts are usage errors.
fn refuse(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    if error.use_stderr() {
        report::write_to_stderr(&report::cleaned(&text));
        ExitCode::from(exit::USAGE)
    } else {
        report::write_to_stdout(&text);
        ExitCode::SUCCESS
    }
}
