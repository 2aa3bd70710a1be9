//! The copy of the checkout in which mutants are built.
//!
//! Invariant: without a mutant the copy equals the checkout. An unchanged file keeps its modification time, so cargo
//! does not build it again.

use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::mutants::Mutant;
use crate::shell::root;

/// The files at the root that the build or a test reads.
const FILES: [&str; 8] = [
    "Cargo.toml",
    "Cargo.lock",
    "README.md",
    "SECURITY.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "clippy.toml",
    "rust-toolchain.toml",
];
const FOLDERS: [&str; 4] = ["crates", "examples", "xtask", "docs"];

/// A copy of the checkout, below the target folder.
pub(super) struct Tree {
    root: PathBuf,
    copy: PathBuf,
}

impl Tree {
    /// Creates the copy, or brings it up to date.
    pub(super) fn copy() -> Result<Self> {
        let root = root()?;
        let copy = root.join("target/mutants/tree");
        for file in FILES {
            copy_if_changed(&root.join(file), &copy.join(file))?;
        }
        for folder in FOLDERS {
            copy_folder(&root.join(folder), &copy.join(folder))?;
        }
        let tree = Self { root, copy };
        // Cargo creates the folder only for programs that are not tests, and the log of a test is there.
        fs::create_dir_all(tree.target())?;
        Ok(tree)
    }

    /// Returns the root of the copy.
    pub(super) fn path(&self) -> &Path {
        &self.copy
    }

    /// Returns the folder of the finished programs.
    pub(super) fn target(&self) -> PathBuf {
        self.copy.with_file_name("target")
    }

    /// Returns the folder of every build, that of the checkout.
    pub(super) fn build(&self) -> PathBuf {
        self.root.join("target")
    }

    /// Returns the names of the crates of the copy, which are those of their folders.
    pub(super) fn crates(&self) -> Result<Vec<String>> {
        let name = |entry: io::Result<DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
        fs::read_dir(self.copy.join("crates"))?.map(name).collect()
    }

    /// Applies a mutant. A stale mutant is an error.
    pub(super) fn apply(&self, mutant: &Mutant) -> Result<()> {
        mutant.check(&self.copy)?;
        mutant.apply(&self.copy, &[])
    }

    /// Restores the files that a mutant changes.
    pub(super) fn undo(&self, mutant: &Mutant) -> Result<()> {
        let mut files = mutant.files().into_iter();
        files.try_for_each(|file| copy_if_changed(&self.root.join(file), &self.copy.join(file)))
    }
}

/// Makes a folder equal to another, without writing to equal files.
fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(to)? {
        let entry = entry?.path();
        let source = from.join(entry.file_name().context("an entry has a name")?);
        match (entry.is_dir(), source.is_dir()) {
            (true, false) => fs::remove_dir_all(&entry)?,
            (false, _) if !source.is_file() => fs::remove_file(&entry)?,
            _ => {}
        }
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?.path();
        let to = to.join(entry.file_name().context("an entry has a name")?);
        if entry.is_dir() { copy_folder(&entry, &to)? } else { copy_if_changed(&entry, &to)? }
    }
    Ok(())
}

/// Copies a file. Does not write to an equal file, so cargo does not build it again.
pub(super) fn copy_if_changed(from: &Path, to: &Path) -> Result<()> {
    let text = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    if fs::read(to).is_ok_and(|present| present == text) {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    Ok(fs::write(to, text)?)
}
