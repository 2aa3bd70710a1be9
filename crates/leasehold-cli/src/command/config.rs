//! `leasehold config`: checks configuration files.
//!
//! Invariant: connects to nothing, and prints no secret.

use anyhow::Error;
use leasehold::config::{Config, ConfigError};

use crate::arguments::{self, Check, ConfigVerb};
use crate::exit;
use crate::report::{Report, write_to_stdout};

/// Runs the verb and returns the exit code.
pub(crate) fn run(arguments: &arguments::Config) -> u8 {
    let ConfigVerb::Check(check) = &arguments.verb;
    match read(check) {
        Ok(config) => {
            write_to_stdout(&config.to_string());
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
