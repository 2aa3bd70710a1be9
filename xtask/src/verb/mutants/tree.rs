//! The copy of the checkout in which mutants are built.
//!
//! Invariant: without a mutant the copy equals the checkout. An unchanged file keeps its modification time, so cargo
//! does not build it again.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

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
        Ok(Self { root, copy })
    }

    /// The root of the copy.
    pub(super) fn path(&self) -> &Path {
        &self.copy
    }

    /// The target folder of every build in the copy.
    pub(super) fn target(&self) -> PathBuf {
        self.copy.with_file_name("target")
    }

    /// Applies the edits of a mutant.
    pub(super) fn apply(&self, mutant: &Mutant) -> Result<()> {
        for edit in mutant.edits {
            let file = self.copy.join(edit.file);
            let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", edit.file))?;
            let places = text.matches(edit.from).count();
            ensure!(places == 1, "{} has its text {places} times, not once: {:?}", edit.file, edit.from);
            fs::write(&file, text.replacen(edit.from, edit.to, 1))?;
        }
        Ok(())
    }

    /// Restores the files that a mutant edits.
    pub(super) fn undo(&self, mutant: &Mutant) -> Result<()> {
        let mut edits = mutant.edits.iter();
        edits.try_for_each(|edit| copy_if_changed(&self.root.join(edit.file), &self.copy.join(edit.file)))
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
fn copy_if_changed(from: &Path, to: &Path) -> Result<()> {
    let text = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    if fs::read(to).is_ok_and(|present| present == text) {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    Ok(fs::write(to, text)?)
}
