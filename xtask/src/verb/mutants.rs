//! `cargo x mutants`: breaks the protocol on purpose, one rule at a time, and sees whether the simulator notices.
//!
//! Invariant: the checkout is not touched; each mutant is built from a copy. A mutant whose text is not found exactly
//! once is an error, so that none goes stale in silence.
//! Called by: `main`; `verify` through its list.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::mutants::{Mutant, all};
use crate::shell::{cargo, root};

/// What a mutant may take to be found.
const SEEDS: &str = "10000";
const SECONDS: &str = "60";

/// Builds and runs each mutant, or those whose names contain an argument, and prints what each needed.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let wanted = |mutant: &&Mutant| {
        arguments.is_empty() || arguments.iter().any(|part| mutant.name.contains(part.as_str()))
    };
    let chosen: Vec<_> = all().filter(wanted).collect();
    ensure!(!chosen.is_empty(), "no mutant has such a name");
    let tree = copy_of_the_checkout()?;
    let mut missed = Vec::new();
    println!("{:<44}{:>8}  {:<14}{:>8}", "mutant", "seeds", "broken promise", "seconds");
    for mutant in chosen {
        let found = mutant.apply(&tree).and_then(|()| hunt(&tree, mutant.mode()));
        mutant.undo(&tree)?;
        match found.with_context(|| format!("mutant {:?}", mutant.name))? {
            Some(Found { seed, id, seconds }) => {
                println!("{:<44}{seed:>8}  {id:<14}{seconds:>8.1}", mutant.name);
            }
            None => {
                println!("{:<44}{:>8}", mutant.name, "MISSED");
                missed.push(mutant.name);
            }
        }
    }
    ensure!(missed.is_empty(), "not found: {}", missed.join(", "));
    Ok(())
}

/// What showed a mutant.
struct Found {
    /// How many seeds it took.
    seed: u64,
    /// The promises that were seen broken.
    id: String,
    /// Of hunting, without building.
    seconds: f64,
}

/// Builds the simulator of a mutant and runs it until it finds something.
fn hunt(tree: &Path, mode: &str) -> Result<Option<Found>> {
    let target = tree.with_file_name("target");
    let mut build = cargo(&[
        "build",
        "--release",
        "--quiet",
        "--locked",
        "-p",
        "leasehold-sim",
        "--bin",
        "leasehold-sim",
    ])?;
    build.current_dir(tree).env("CARGO_TARGET_DIR", &target).env("CARGO_INCREMENTAL", "1");
    let built = build.env("RUSTFLAGS", "-Awarnings").status().context("cannot run cargo")?;
    ensure!(built.success(), "it does not compile");
    let begin = Instant::now();
    let mut hunt = Command::new(target.join("release/leasehold-sim"));
    let hunt = hunt.args(["--mode", mode, "--seeds", SEEDS, "--seconds", SECONDS, "--brief"]).output()?;
    let said = String::from_utf8_lossy(&hunt.stdout);
    let Some(line) = said.lines().find_map(|line| line.strip_prefix("broken ")) else {
        ensure!(hunt.status.success(), "the simulator failed in another way: {said}");
        return Ok(None);
    };
    let (seed, id) = line.split_once(' ').context("the simulator says the seed and the promise")?;
    Ok(Some(Found { seed: seed.parse()?, id: id.to_owned(), seconds: begin.elapsed().as_secs_f64() }))
}

/// A copy of what the simulator is built from, below the target folder.
fn copy_of_the_checkout() -> Result<PathBuf> {
    let root = root()?;
    let tree = root.join("target/mutants/tree");
    for file in ["Cargo.toml", "Cargo.lock", "README.md", "clippy.toml"] {
        copy_if_changed(&root.join(file), &tree.join(file))?;
    }
    for folder in ["crates", "examples", "xtask"] {
        copy_folder(&root.join(folder), &tree.join(folder))?;
    }
    Ok(tree)
}

/// Makes a folder the same as another, and leaves alone what is the same already.
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

/// Leaves a file alone that is the same, so that cargo does not build it again.
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

impl Mutant {
    fn apply(&self, tree: &Path) -> Result<()> {
        for edit in self.edits {
            let file = tree.join(edit.file);
            let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", edit.file))?;
            let places = text.matches(edit.from).count();
            ensure!(places == 1, "{} has its text {places} times, not once: {:?}", edit.file, edit.from);
            fs::write(&file, text.replacen(edit.from, edit.to, 1))?;
        }
        Ok(())
    }

    /// Brings the copy back to what the checkout has.
    fn undo(&self, tree: &Path) -> Result<()> {
        let root = root()?;
        self.edits.iter().try_for_each(|edit| copy_if_changed(&root.join(edit.file), &tree.join(edit.file)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutant_still_has_its_text_exactly_once() {
        let root = root().unwrap();
        for mutant in all() {
            for edit in mutant.edits {
                let text = fs::read_to_string(root.join(edit.file)).unwrap();
                assert_eq!(
                    text.matches(edit.from).count(),
                    1,
                    "{}: {:?} in {}",
                    mutant.name,
                    edit.from,
                    edit.file
                );
            }
        }
    }
}
