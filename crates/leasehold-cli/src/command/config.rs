//! `leasehold config`: checks configuration files.
//!
//! Invariant: connects to nothing, and prints no secret.

use leasehold::config::{Config, ConfigBuilder, ConfigError};

use crate::arguments::{self, Check, ConfigVerb};
use crate::exit;
use crate::report::{Report, write_to_stdout};

/// Runs the verb and returns the exit code.
pub(crate) fn run(arguments: &arguments::Config) -> u8 {
    let ConfigVerb::Check(check) = &arguments.verb;
    let report = Report::new(false);
    match read(check) {
        Ok(config) => {
            let ignored = config.ignored_variables().join(", ");
            if !ignored.is_empty() {
                let why = "Kubernetes sets such variables for a service whose name begins with `leasehold`";
                report.warn(format_args!("ignored {ignored}: {why}"));
            }
            write_to_stdout(&config.to_string());
            0
        }
        Err(errors) => {
            errors.iter().for_each(|error| report.warn(format_args!("{error}")));
            exit::USAGE
        }
    }
}

fn read(check: &Check) -> Result<Config, Vec<ConfigError>> {
    let builder = check.files.iter().fold(Config::builder(), ConfigBuilder::file);
    let builder = if check.no_env { builder } else { builder.environment() };
    builder.build_or_all_errors()
}
