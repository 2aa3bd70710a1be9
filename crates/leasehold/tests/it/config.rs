//! Configurations from all sources: accepted and refused input, printed output, and the effect on the locks.

mod checks;
mod connecting;
mod files;
mod fleets;
mod layers;
mod secrets;
mod terms;

use std::path::PathBuf;

use leasehold::config::{Config, ConfigError};
use tempfile::TempDir;

/// A temporary folder with files.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Writes a file.
    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

/// Reads a configuration from a text with this file name.
fn read(name: &str, text: &str) -> Result<Config, ConfigError> {
    let folder = Folder::new();
    Config::from_file(folder.file(name, text))
}

/// Reads a configuration from TOML.
fn toml(text: &str) -> Result<Config, ConfigError> {
    read("app.toml", text)
}

/// Checks the whole message, and that no cause repeats it.
#[track_caller]
fn assert_message(error: &ConfigError, message: &str) {
    assert_eq!(error.to_string(), message);
    assert!(std::error::Error::source(error).is_none(), "the cause is in the message");
}

/// The error of a configuration that must fail.
#[track_caller]
fn refused(outcome: Result<Config, ConfigError>) -> ConfigError {
    match outcome {
        Ok(config) => panic!("it was read as\n{config}"),
        Err(error) => error,
    }
}
