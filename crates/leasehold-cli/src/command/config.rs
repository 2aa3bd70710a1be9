//! `leasehold config`: checks configuration files.
//!
//! Invariant: connects to nothing, and prints no secret.

use std::io::{self, Write};

use anyhow::Error;
use leasehold::config::{Config, ConfigError};

use crate::arguments::{self, Check, ConfigVerb};
use crate::exit;
use crate::report::Report;

/// Runs the verb and returns the exit code.
pub(crate) fn run(arguments: &arguments::Config) -> u8 {
    let ConfigVerb::Check(check) = &arguments.verb;
    match read(check) {
        Ok(config) => {
            // A reader that closes its end early is no error.
            let _ = io::stdout().write_all(config.to_string().as_bytes());
            0
        }
        Err(error) => {
            Report::new(false).warn(format_args!("{:#}", Error::new(error)));
            exit::USAGE
        }
    }
}

fn read(check: &Check) -> Result<Config, ConfigError> {
    let builder = check.files.iter().fold(Config::builder(), leasehold::config::ConfigBuilder::file);
    if check.no_env { builder.build() } else { builder.environment().build() }
}
