//! The programs that count: valgrind and gungraun's runner.
//!
//! Invariant: the runner has the version of the library `gungraun` in the lock file, because each accepts only the
//! other's version.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::apt::{self, ThisMachine};
use crate::shell::{cargo, output, root, run};

/// The Debian package and its program.
const VALGRIND: &str = "valgrind";
/// The package of the registry and its program.
const RUNNER: &str = "gungraun-runner";

/// Installs valgrind, if this machine has none.
pub(super) fn ensure_valgrind() -> Result<()> {
    let version = || output(Command::new(VALGRIND).arg("--version"));
    if version().is_err() {
        println!("no {VALGRIND} on PATH: installing it");
        apt::install(&ThisMachine, &[VALGRIND])?;
    }
    print!("{}", version().with_context(|| format!("{VALGRIND} was installed and does not run"))?);
    Ok(())
}

/// Returns the path of the runner. Builds it below the target folder, unless an earlier run has.
pub(super) fn ensure_runner() -> Result<PathBuf> {
    let package = output(&mut cargo(&["pkgid", "--locked", RUNNER])?)?;
    let version = package.trim().rsplit(['@', '#']).next().context("cargo pkgid prints a version")?;
    let folder = root()?.join("target/tools").join(format!("{RUNNER}-{version}"));
    let program = folder.join("bin").join(RUNNER);
    if !program.is_file() {
        // It only starts valgrind and reads its files, so it needs no optimization, which would take minutes.
        let install = ["install", "--quiet", "--locked", "--debug", RUNNER, "--version"];
        let mut install = cargo(&install)?;
        install.arg(format!("={version}")).arg("--root").arg(&folder);
        run(install.env("CARGO_PROFILE_DEV_DEBUG", "0"))?;
    }
    Ok(program)
}

/// Returns the versions on which the counts depend: of the compiler, of the C library with its
/// allocator, and of the processor.
pub(super) fn versions() -> Result<String> {
    let compiler = output(Command::new("rustc").arg("--version").current_dir(root()?))?;
    let compiler = compiler.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let library = output(Command::new("getconf").arg("GNU_LIBC_VERSION"))?;
    Ok(format!("{compiler}, {} and {}", library.trim(), std::env::consts::ARCH))
}
