//! The configuration of `leasehold run`: files, the environment, and the options on top.
//!
//! Invariant: a command and a service that read the same files and variables lock the same keys of the same server, on
//! the same terms. The command refuses a setting that it cannot honor.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use leasehold::config::{Config, ConfigBuilder, ConfigError};

use crate::address::Address;
use crate::arguments::Run;
use crate::arguments::operator::Sources;
use crate::exit::Failure;
use crate::kind::Kind;

/// The server when no source names one.
const DEFAULT: &str = "redis://127.0.0.1:6379";

/// The configuration of one command.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) config: Config,
    /// True if no source names a server.
    pub(crate) is_default_address: bool,
}

/// Reads all sources and refuses the settings that no command can use.
pub(crate) fn read(arguments: &Run) -> Result<Settings, Failure> {
    checked(arguments.ca_file.as_deref(), || sources(arguments).environment())
}

/// Reads the sources of a verb that uses the library without a lock of its own.
pub(crate) fn client(sources: &Sources) -> Result<Settings, Failure> {
    let Sources { url, config, ca_file } = sources;
    checked(ca_file.as_deref(), || named(config, url.as_ref()).environment())
}

fn checked(ca_file: Option<&Path>, sources: impl Fn() -> ConfigBuilder) -> Result<Settings, Failure> {
    let settings = trusting(ca_file, sources).map_err(Failure::usage)?;
    check(&settings.config)?;
    Ok(settings)
}

/// Reads the servers of a configuration: files, the environment, and the URL on top.
pub(crate) fn servers(sources: &Sources) -> Result<Config, Failure> {
    let Sources { url, config, ca_file } = sources;
    let sources = || named(config, url.as_ref()).environment();
    let settings = trusting(ca_file.as_deref(), sources).map_err(Failure::usage)?;
    if settings.config.is_in_process() {
        return Err(Failure::usage(anyhow!("memory:// has no server; name one, such as {DEFAULT}")));
    }
    Ok(settings.config)
}

/// Builds the configuration, with this CA for whichever section names the servers.
fn trusting(ca_file: Option<&Path>, sources: impl Fn() -> ConfigBuilder) -> Result<Settings, ConfigError> {
    let settings = with_default(&sources)?;
    let Some(file) = ca_file else { return Ok(settings) };
    let key = format!("{}.ca_file", settings.config.tls_section());
    with_default(|| sources().argument("--ca-file", &key, file.to_string_lossy().into_owned()))
}

/// Builds the configuration, with the default server if no source names one.
fn with_default(sources: impl Fn() -> ConfigBuilder) -> Result<Settings, ConfigError> {
    match sources().build() {
        Err(ConfigError::Missing { key, .. }) if key == "url" => {
            let config = sources().argument("default", "url", DEFAULT).build()?;
            Ok(Settings { config, is_default_address: true })
        }
        read => Ok(Settings { config: read?, is_default_address: false }),
    }
}

/// Returns the files and the options, which have the names of their keys in the section of the lock's kind.
fn sources(arguments: &Run) -> ConfigBuilder {
    let mut builder = named(&arguments.config, arguments.url.as_ref());
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

/// Returns the files, and the URL on top.
fn named(files: &[PathBuf], url: Option<&Address>) -> ConfigBuilder {
    let builder = files.iter().fold(Config::builder(), ConfigBuilder::file);
    match url {
        Some(url) => builder.argument("--url", "url", url.expose()),
        None => builder,
    }
}

/// Refuses a quorum. Refuses a server in the memory of this process, because each command would have a server of its
/// own, and none would exclude another.
fn check(config: &Config) -> Result<(), Failure> {
    if config.is_in_process() {
        let why = anyhow!("memory:// excludes no other process; commands need a server, such as {DEFAULT}");
        return Err(Failure::usage(why));
    }
    if config.is_quorum() {
        let why = anyhow!(
            "the configuration describes a quorum, which this verb does not support; name one server, for example \
             with --url"
        );
        return Err(Failure::usage(why));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_address_is_that_of_no_other_source() {
        let is_default = |sources: fn() -> ConfigBuilder| with_default(sources).unwrap().is_default_address;
        assert!(is_default(Config::builder));
        assert!(!is_default(|| Config::builder().argument("--url", "url", DEFAULT)));
    }
}
