//! The configuration of `leasehold run`: files, the environment, and the options on top.
//!
//! Invariant: a command and a service that read the same files and variables lock the same keys of the same server, on
//! the same terms. The command refuses a setting that it cannot honor.

use anyhow::anyhow;
use leasehold::config::{Config, ConfigBuilder, ConfigError};

use crate::arguments::Run;
use crate::exit::Failure;
use crate::kind::Kind;

/// The server when no source names one.
const DEFAULT: &str = "redis://127.0.0.1:6379";

/// Reads all sources and refuses the settings that no command can use.
pub(crate) fn read(arguments: &Run) -> Result<Config, Failure> {
    let config = match sources(arguments).environment().build() {
        Err(ConfigError::Missing { key, .. }) if key == "url" => {
            sources(arguments).environment().argument("default", "url", DEFAULT).build()
        }
        read => read,
    };
    usable(config.map_err(Failure::usage)?)
}

/// Returns the files and the options, which have the names of their keys in the section of the lock's kind.
fn sources(arguments: &Run) -> ConfigBuilder {
    let mut builder = arguments.config.iter().fold(Config::builder(), ConfigBuilder::file);
    if let Some(url) = &arguments.url {
        builder = builder.argument("--url", "url", url.expose());
    }
    let section = Kind::of(&arguments.kind).section();
    for (option, key, value) in [
        ("--lease", "watchdog", arguments.lease),
        ("--max-hold", "max_hold", arguments.max_hold),
        ("--min-hold", "min_hold", arguments.min_hold),
    ] {
        if let Some(value) = value {
            builder = builder.argument(option, &format!("{section}.{key}"), value);
        }
    }
    builder
}

/// Refuses a quorum. Refuses a server in the memory of this process, because each command would have a server of its
/// own, and none would exclude another.
fn usable(config: Config) -> Result<Config, Failure> {
    if config.is_in_process() {
        let why = anyhow!("memory:// excludes no other process; commands need a server, such as {DEFAULT}");
        return Err(Failure::usage(why));
    }
    if config.is_quorum() {
        let why = anyhow!(
            "the configuration is that of a quorum, which `leasehold run` does not support; name one server, by --url for \
             instance"
        );
        return Err(Failure::usage(why));
    }
    Ok(config)
}
