//! Mutants, each of which breaks one rule on purpose, to show that a test or the simulator notices.
//!
//! Invariant: a mutant compiles, and without it the code is right.
//!
//! # How it works
//! A mutant is a file `xtask/mutants/<group>/<name>.patch`: a header, then a unified diff with one line of context. The
//! header has the lines `mutant: <group>: <name>`, `breaks: <a sentence>` and `killed by: <killer>`. A killer is
//! `simulator <mode>` or `<package> <target> <test>`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::shell::{output, root};

/// The folder of the patches.
const FOLDER: &str = "xtask/mutants";

/// One broken rule.
pub(crate) struct Mutant {
    pub(crate) name: String,
    /// The sentence that says what it breaks.
    pub(crate) breaks: String,
    pub(crate) killer: Killer,
    /// The path of its patch.
    pub(crate) patch: String,
    hunks: Vec<Hunk>,
}

/// The check that notices a mutant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Killer {
    /// A seed of the simulator in this mode.
    Simulator { mode: String },
    /// One quick test, by the whole path that `cargo test` prints. The target is the name of a file in `tests/`, or
    /// `lib`.
    Test { package: String, target: String, test: String },
}

/// The lines that a patch replaces in one place, with the lines around them.
#[derive(Debug, PartialEq)]
struct Hunk {
    file: String,
    lines: String,
    removes: bool,
}

/// Returns all mutants, sorted by their paths.
pub(crate) fn all() -> Result<Vec<Mutant>> {
    let root = root()?;
    let mut patches = Vec::new();
    for group in fs::read_dir(root.join(FOLDER))? {
        for patch in fs::read_dir(group?.path())? {
            let patch = patch?.path();
            patches.push(patch.strip_prefix(&root)?.to_string_lossy().into_owned());
        }
    }
    patches.sort_unstable();
    patches.iter().map(|patch| Mutant::parse(patch, &fs::read_to_string(root.join(patch))?)).collect()
}

impl Killer {
    /// Returns the crate of the test, or the name of the simulator.
    pub(crate) fn noticed_in(&self) -> &str {
        match self {
            Self::Simulator { .. } => "the simulator",
            Self::Test { package, .. } => package,
        }
    }
}

impl Mutant {
    /// Reads a patch.
    pub(crate) fn parse(patch: &str, text: &str) -> Result<Self> {
        let header = |field: &str| {
            let value =
                text.lines().take_while(|line| !line.is_empty()).find_map(|line| line.strip_prefix(field));
            value.map(str::to_owned).with_context(|| format!("{patch}: the header has no line `{field}`"))
        };
        let name = header("mutant: ")?;
        let path = path(&name).with_context(|| format!("{patch}: a mutant is called `<group>: <name>`"))?;
        ensure!(path == patch, "{patch}: the file of mutant {name:?} is called {path}");
        let killer =
            killer(&header("killed by: ")?).with_context(|| format!("{patch}: the line `killed by: `"))?;
        let hunks = hunks(text);
        ensure!(!hunks.is_empty(), "{patch}: it changes nothing");
        Ok(Self { breaks: header("breaks: ")?, patch: patch.to_owned(), name, killer, hunks })
    }

    /// Returns the files that the mutant changes.
    pub(crate) fn files(&self) -> BTreeSet<&str> {
        self.hunks.iter().map(|hunk| hunk.file.as_str()).collect()
    }

    /// Returns true if each hunk removes a line, which says where it belongs without the lines around it.
    pub(crate) fn has_removed_lines(&self) -> bool {
        self.hunks.iter().all(|hunk| hunk.removes)
    }

    /// Checks that the lines of each hunk occur exactly once in a copy of the checkout. The error says what moved.
    pub(crate) fn check(&self, tree: &Path) -> Result<()> {
        for Hunk { file, lines, .. } in &self.hunks {
            let Ok(text) = fs::read_to_string(tree.join(file)) else {
                bail!("{} is stale: {file} moved or is gone", self.patch);
            };
            let (text, sought): (Vec<_>, Vec<_>) = (text.lines().collect(), lines.lines().collect());
            let places = text.windows(sought.len()).filter(|window| *window == sought).count();
            ensure!(
                places == 1,
                "{} is stale (`cargo x mutants --refresh`): {file} has these lines {places} times:\n{lines}",
                self.patch
            );
        }
        Ok(())
    }

    /// Applies the patch to a copy of the checkout.
    pub(crate) fn apply(&self, tree: &Path, options: &[&str]) -> Result<()> {
        let tree = tree.canonicalize()?;
        let mut git = Command::new("git");
        git.args(["apply", "--whitespace=nowarn"])
            .args(options)
            .arg(root()?.canonicalize()?.join(&self.patch));
        // Keeps git from taking the copy for a part of the checkout around it.
        git.current_dir(&tree).env("GIT_CEILING_DIRECTORIES", tree.parent().unwrap_or(&tree));
        output(&mut git).with_context(|| format!("{} does not apply", self.patch))?;
        Ok(())
    }
}

/// Returns the path of a mutant's patch: its group and its name in lower case, with a hyphen for all other characters.
fn path(name: &str) -> Option<String> {
    let (group, name) = name.split_once(": ")?;
    let file = |words: &str| {
        let words = words.to_lowercase().replace('\'', "");
        let words = words.split(|letter: char| !letter.is_ascii_alphanumeric());
        words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
    };
    Some(format!("{FOLDER}/{}/{}.patch", file(group), file(name)))
}

fn killer(text: &str) -> Result<Killer> {
    match text.split(' ').map(str::to_owned).collect::<Vec<_>>().as_slice() {
        [simulator, mode] if simulator == "simulator" => Ok(Killer::Simulator { mode: mode.clone() }),
        [package, target, test] => {
            Ok(Killer::Test { package: package.clone(), target: target.clone(), test: test.clone() })
        }
        _ => bail!("a killer is `simulator <mode>` or `<package> <target> <test>`"),
    }
}

/// Returns the hunks of a unified diff.
fn hunks(text: &str) -> Vec<Hunk> {
    let mut file = "";
    let mut hunks: Vec<Hunk> = Vec::new();
    let mut in_hunk = false;
    for line in text.lines() {
        if let Some(path) = line.strip_prefix("--- a/") {
            (file, in_hunk) = (path, false);
        } else if line.starts_with("@@ ") {
            hunks.push(Hunk { file: file.to_owned(), lines: String::new(), removes: false });
            in_hunk = true;
        } else if let Some(hunk) = hunks.last_mut().filter(|_| in_hunk) {
            match line.split_at_checked(1) {
                Some(("+", _)) => {}
                Some((mark @ (" " | "-"), line)) => {
                    hunk.removes |= mark == "-";
                    hunk.lines.extend([line, "\n"]);
                }
                // Some editors remove the space of an empty line of context.
                None => hunk.lines.push('\n'),
                Some(_) => in_hunk = false,
            }
        }
    }
    hunks
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "mutant: min hold: a client's queue\nbreaks: The queue.\nkilled by: simulator single\n\n\
                         --- a/x/a.lua\n+++ b/x/a.lua\n@@ -1,3 +1,3 @@\n one\n-- two\n+- three\n\n\
                         diff --git a/x/b.rs b/x/b.rs\n--- a/x/b.rs\n+++ b/x/b.rs\n@@ -7,2 +7,3 @@\n end\n+more\n}\n";
    const FILE: &str = "xtask/mutants/min-hold/a-clients-queue.patch";

    #[test]
    fn a_patch_is_read() {
        let mutant = Mutant::parse(FILE, PATCH).unwrap();
        assert_eq!(
            (mutant.name.as_str(), mutant.breaks.as_str()),
            ("min hold: a client's queue", "The queue.")
        );
        assert_eq!(mutant.killer, Killer::Simulator { mode: "single".to_owned() });
        assert_eq!(
            mutant.hunks[0],
            Hunk { file: "x/a.lua".to_owned(), lines: "one\n- two\n\n".to_owned(), removes: true }
        );
        assert_eq!(mutant.files(), BTreeSet::from(["x/a.lua", "x/b.rs"]));
        assert!(!mutant.has_removed_lines());
        let test = PATCH.replace("simulator single", "leasehold lib shared::a_test");
        assert!(
            matches!(Mutant::parse(FILE, &test).unwrap().killer, Killer::Test { test, .. } if test == "shared::a_test")
        );
    }

    #[test]
    fn an_incomplete_or_misnamed_patch_is_an_error() {
        assert!(Mutant::parse("xtask/mutants/min-hold/b.patch", PATCH).is_err());
        for (part, instead) in
            [("breaks: ", ""), ("simulator single", "simulator"), ("min hold: ", "min hold "), ("@@ ", "")]
        {
            assert!(Mutant::parse(FILE, &PATCH.replace(part, instead)).is_err(), "{part}");
        }
    }

    #[test]
    fn lines_that_moved_or_repeat_are_found() {
        let mutant = Mutant::parse(FILE, PATCH.split("diff --git").next().unwrap()).unwrap();
        let tree = root().unwrap().join("target/mutants/check");
        fs::create_dir_all(tree.join("x")).unwrap();
        let check = |text: &str| {
            fs::write(tree.join("x/a.lua"), text).unwrap();
            mutant.check(&tree).map_err(|error| error.to_string())
        };
        assert_eq!(check("zero\none\n- two\n\nthree\n"), Ok(()));
        assert!(
            check("one\nmore\n- two\n\n")
                .unwrap_err()
                .contains("x/a.lua has these lines 0 times:\none\n- two")
        );
        assert!(check("one\n- two\n\none\n- two\n\n").unwrap_err().contains("2 times"));
        fs::remove_file(tree.join("x/a.lua")).unwrap();
        assert!(mutant.check(&tree).unwrap_err().to_string().contains("x/a.lua moved or is gone"));
    }
}
