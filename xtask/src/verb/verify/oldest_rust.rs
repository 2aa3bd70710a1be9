//! The check that the oldest Rust that the manifests declare builds everything.
//!
//! Invariant: without that toolchain, all checks that do not need it run, and the report names the rest.
//!
//! # How it works
//! CI installs the toolchain, and `cargo check` runs with it. Without the toolchain, no dependency may declare a newer
//! Rust, clippy knows the release in which each item of the standard library became stable (`incompatible_msrv`), and
//! the workspace's `clippy.toml` and manifests must name the same release. Only the toolchain finds a newer syntax.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::metadata::{Metadata, Package};
use crate::shell::{Done, cargo, on_ci, output, root, run};

/// The oldest Rust that builds this, as the workspace's manifest declares it.
const OLDEST: &str = env!("CARGO_PKG_RUST_VERSION");

/// Builds everything with the toolchain, or runs the checks that do not need it.
pub(super) fn check() -> Result<Done> {
    let mut toolchain = installed()?;
    if toolchain.is_none() && on_ci() {
        let install = ["toolchain", "install", OLDEST, "--profile", "minimal", "--no-self-update"];
        if let Err(error) = run(Command::new("rustup").args(install)) {
            println!("going on without it: {error:#}");
        }
        toolchain = installed()?;
    }
    let Some(toolchain) = toolchain else {
        without_it()?;
        let limit = format!(
            "syntax that is newer than Rust {OLDEST}, which is not installed; \
             `rustup toolchain install {OLDEST} --profile minimal` brings it"
        );
        return Ok(Done::Except(limit));
    };
    // The same as `cargo +toolchain check`, which the cargo that runs this program may not accept, since it need not be
    // rustup's.
    let mut check = Command::new("rustup");
    check.args(["run", &toolchain, "cargo", "check", "--workspace", "--locked"]).current_dir(root()?);
    run(&mut check)?;
    Ok(Done::Fully)
}

fn installed() -> Result<Option<String>> {
    // A machine without rustup has no toolchain but the current one.
    let listed = output(Command::new("rustup").args(["toolchain", "list"])).unwrap_or_default();
    Ok(toolchain_of(OLDEST, &listed).map(str::to_owned))
}

/// Runs the checks that do not need the toolchain.
fn without_it() -> Result<()> {
    let metadata = Metadata::load()?;
    let too_new = newer(metadata.built(), OLDEST)?;
    ensure!(too_new.is_empty(), "need a Rust newer than {OLDEST}: {}", too_new.join(", "));
    println!("no package of {} needs a Rust newer than {OLDEST}", metadata.built().len());
    let clippy = fs::read_to_string(root()?.join("clippy.toml")).context("cannot read clippy.toml")?;
    let same = format!("msrv = \"{OLDEST}\"");
    ensure!(clippy.lines().any(|line| line == same), "clippy.toml does not say {same}");
    let items =
        ["clippy", "--locked", "--workspace", "--all-features", "--", "-D", "clippy::incompatible_msrv"];
    run(&mut cargo(&items)?)
}

/// Returns the packages that declare a Rust newer than `oldest`.
fn newer(packages: Vec<&Package>, oldest: &str) -> Result<Vec<String>> {
    let oldest = release(oldest)?;
    let mut found = Vec::new();
    for package in packages {
        if let Some(needed) = &package.rust_version
            && release(needed)? > oldest
        {
            found.push(format!("{} {} (Rust {needed})", package.name, package.version));
        }
    }
    Ok(found)
}

/// Reads `1.88` and `1.88.0` as the same release.
fn release(version: &str) -> Result<[u32; 3]> {
    let mut parts = version.split('.').map(str::parse);
    let mut next = || parts.next().unwrap_or(Ok(0)).with_context(|| format!("{version:?} is no release"));
    Ok([next()?, next()?, next()?])
}

/// Returns the installed toolchain of this version, which may be called `1.88-host` or `1.88.0-host`.
fn toolchain_of<'a>(version: &str, installed: &'a str) -> Option<&'a str> {
    let names = installed.lines().filter_map(|line| line.split(' ').next());
    names.into_iter().find(|name| name.strip_prefix(version).is_some_and(|rest| rest.starts_with(['-', '.'])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toolchain_is_found_by_its_whole_version() {
        let installed =
            "stable-x86_64-unknown-linux-gnu (active, default)\n1.8.0-x\n1.880.0-x\n1.88.0-x (old)\n";
        assert_eq!(toolchain_of("1.88", installed), Some("1.88.0-x"));
        assert_eq!(toolchain_of("1.88", "1.88-x"), Some("1.88-x"));
        assert_eq!(toolchain_of("1.88", "stable-x\n1.95.0-x"), None);
        assert_eq!(toolchain_of("1.88", ""), None);
    }

    #[test]
    fn releases_are_compared_as_numbers() {
        assert_eq!(release("1.88").unwrap(), release("1.88.0").unwrap());
        assert!(release("1.9").unwrap() < release("1.88").unwrap());
        assert!(release("soon").is_err());
    }

    #[test]
    fn a_package_that_needs_a_newer_rust_is_named() {
        let printed = r#"{"packages": [
            {"id": "a", "name": "a", "version": "0.1.0", "rust_version": "1.88.0", "publish": null},
            {"id": "b", "name": "b", "version": "2.0.0", "rust_version": "1.89", "publish": null},
            {"id": "c", "name": "c", "version": "2.0.0", "rust_version": null, "publish": null}
        ], "workspace_members": ["a", "b", "c"], "resolve": {"nodes": []}}"#;
        let metadata = Metadata::parse(printed).unwrap();
        assert_eq!(newer(metadata.built(), "1.88").unwrap(), ["b 2.0.0 (Rust 1.89)"]);
    }
}
