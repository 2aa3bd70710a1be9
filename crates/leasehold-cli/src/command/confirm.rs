//! The question before a verb that changes a lock.

use std::io::{self, BufRead, IsTerminal};

use crate::exit::Failure;
use crate::report::{Report, write_to_stderr};
use crate::table::clean;

/// Asks for the name. Returns false if another text is typed, or if there is no terminal to ask on.
pub(crate) fn confirmed(name: &str) -> Result<bool, Failure> {
    let report = Report::new(false);
    if !io::stdin().is_terminal() {
        report.warn(format_args!(
            "declined: the input is not a terminal; use --yes to release without a question"
        ));
        return Ok(false);
    }
    write_to_stderr(&format!("type the name to continue ({}): ", clean(name)));
    let mut typed = String::new();
    io::stdin().lock().read_line(&mut typed).map_err(Failure::system)?;
    let is_same = typed.trim_end_matches(['\n', '\r']) == name;
    if !is_same {
        report.warn(format_args!("declined: that is another name"));
    }
    Ok(is_same)
}
