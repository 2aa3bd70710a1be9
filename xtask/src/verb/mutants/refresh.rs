//! `cargo x mutants --refresh`: writes a stale patch again, after the lines around its place have changed.
//!
//! Invariant: a refreshed patch makes the same change, and its lines occur exactly once in the file.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::tree::copy_if_changed;
use crate::mutants::Mutant;
use crate::shell::root;

/// The largest number of lines of context, for a change whose lines occur more than once.
const CONTEXT_MAX: usize = 9;

/// Applies a patch by the lines that it removes, and writes it again with the present context.
pub(super) fn refresh(mutant: &Mutant) -> Result<()> {
    let by_hand = || format!("{}: make its change by hand (CONTRIBUTING.md says how)", mutant.patch);
    ensure!(mutant.has_removed_lines(), "{}: a hunk only adds lines", by_hand());
    let root = root()?;
    let folder = root.join("target/mutants/refresh");
    if folder.is_dir() {
        fs::remove_dir_all(&folder)?;
    }
    for file in mutant.files() {
        for side in ["a", "b"] {
            copy_if_changed(&root.join(file), &folder.join(side).join(file)).with_context(by_hand)?;
        }
    }
    mutant.apply(&folder.join("b"), &["-C0"]).with_context(by_hand)?;
    let path = root.join(&mutant.patch);
    let text = fs::read_to_string(&path)?;
    let header = text.split("\n--- a/").next().unwrap_or(&text);
    for context in 1..=CONTEXT_MAX {
        let mut diff = Command::new("git");
        diff.args(["diff", "--no-index", "--no-color", "--no-prefix", &format!("-U{context}"), "a", "b"]);
        let diff = diff.current_dir(&folder).output().context("cannot run git")?.stdout;
        let diff = String::from_utf8(diff)?;
        let diff: String = diff.lines().filter_map(plain).flat_map(|line| [line, "\n"]).collect();
        let patch = format!("{header}\n{diff}");
        if Mutant::parse(&mutant.patch, &patch)?.check(&root).is_ok() {
            println!("{}: refreshed; see `git diff {}`", mutant.name, mutant.patch);
            return Ok(fs::write(&path, patch)?);
        }
    }
    bail!("{}: its lines occur more than once", by_hand())
}

/// Leaves out the parts of git's output that a patch does not need: lines about blobs, and the heading of a hunk.
fn plain(line: &str) -> Option<&str> {
    if line.starts_with("diff --git ") || line.starts_with("index ") {
        return None;
    }
    let heading = line.strip_prefix("@@ ").and_then(|place| place.find(" @@"));
    Some(heading.map_or(line, |end| &line[..end + "@@  @@".len()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_of_git_is_reduced_to_its_lines() {
        let diff = "diff --git a/x.rs b/x.rs\nindex 1a..2b 100644\n--- a/x.rs\n+++ b/x.rs\n\
                    @@ -1,2 +1 @@ impl Index {\n index a\n-@@ b\n";
        let lines: Vec<&str> = diff.lines().filter_map(plain).collect();
        assert_eq!(lines, ["--- a/x.rs", "+++ b/x.rs", "@@ -1,2 +1 @@", " index a", "-@@ b"]);
    }
}
