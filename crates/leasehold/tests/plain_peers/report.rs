//! What the tests have seen, for the table that `cargo x interop plain` prints.

use std::path::PathBuf;
use std::{env, fs};

use crate::roster::Kind;

/// The variable with the folder of the rows. Without it nothing is written.
const FOLDER: &str = "LEASEHOLD_PLAIN_REPORT";

/// Writes what a peer showed in a scenario, to a file of its own because tests run side by side.
pub(crate) fn add(kind: &Kind, scenario: &str, seen: &str) {
    let Some(folder) = env::var_os(FOLDER) else { return };
    fs::write(PathBuf::from(folder).join(format!("{}.{scenario}", kind.name)), seen).unwrap();
}
