//! `leasehold completions` and `leasehold man`: print the command's shell completions and manual pages.

use std::io;

use anyhow::anyhow;
use clap::{Command, CommandFactory};

use crate::arguments::Arguments;
use crate::arguments::operator::{Completions, Man};
use crate::exit::Failure;
use crate::report::{Report, write_to_stdout};

/// Prints the completions of a shell and returns the exit code.
pub(crate) fn completions(arguments: &Completions) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut visible(), "leasehold", &mut script);
    write_to_stdout(&String::from_utf8_lossy(&script));
    0
}

/// Prints a page of the manual and returns the exit code.
pub(crate) fn man(arguments: &Man) -> u8 {
    match page(arguments.verb.as_deref()) {
        Ok(page) => {
            write_to_stdout(&String::from_utf8_lossy(&page));
            0
        }
        Err(failure) => {
            Report::new(false).warn(format_args!("{:#}", failure.reason));
            failure.code
        }
    }
}

fn page(verb: Option<&str>) -> Result<Vec<u8>, Failure> {
    let mut command = visible();
    command.build();
    let command = match verb {
        None => command,
        Some(verb) => {
            let found = command.find_subcommand(verb).cloned();
            let found = found.ok_or_else(|| Failure::usage(anyhow!("there is no verb {verb:?}")))?;
            found.display_name(format!("leasehold-{verb}"))
        }
    };
    let mut page = Vec::new();
    let written: io::Result<()> = clap_mangen::Man::new(command).render(&mut page);
    written.map_err(Failure::system)?;
    Ok(page)
}

/// Returns the command without the verbs that it calls itself by.
fn visible() -> Command {
    let all = Arguments::command();
    let verbs = all.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    let about = all.get_about().cloned().unwrap_or_default();
    Command::new("leasehold")
        .version(env!("CARGO_PKG_VERSION"))
        .about(about)
        .subcommands(verbs.collect::<Vec<_>>())
}
