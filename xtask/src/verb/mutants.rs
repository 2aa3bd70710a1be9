//! `cargo x mutants`: breaks the code on purpose, one rule at a time, and checks that the simulator or a named test
//! notices.
//!
//! Invariant: the checkout does not change, since each mutant is built in a copy. A mutant is an error if its text does
//! not occur exactly once, so a stale mutant is noticed. A test that fails without the mutant is an error too.

mod hunt;
mod tree;

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};

use crate::mutants::{Killer, Mutant, all};
use hunt::Found;
use tree::Tree;

/// The choice of mutants to try.
#[derive(Debug, Default, PartialEq)]
struct Wanted {
    /// The `k`-th of `n` parts.
    share: Option<(usize, usize)>,
    /// Parts of names.
    names: Vec<String>,
}

/// Builds and tries each mutant, or the mutants whose names contain an argument, and prints the effort of each.
///
/// `cargo x mutants --share 1/4` tries every fourth of them.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let chosen = choose(all().collect(), &read(arguments)?);
    ensure!(!chosen.is_empty(), "no mutant has such a name");
    let tree = Tree::copy()?;
    passes_without(&tree, &chosen)?;
    let mut missed = Vec::new();
    println!("{:<52}{:>8}  {:<14}{:>8}", "mutant", "seeds", "noticed by", "seconds");
    for mutant in chosen {
        let found = tree.apply(mutant).and_then(|()| hunt::hunt(&tree, mutant));
        tree.undo(mutant)?;
        match found.with_context(|| format!("mutant {:?}", mutant.name))? {
            Some(Found { seed, by, seconds }) => {
                let seed = seed.map(|seed| seed.to_string()).unwrap_or_default();
                println!("{:<52}{seed:>8}  {by:<14}{seconds:>8.1}", mutant.name);
            }
            None => {
                println!("{:<52}{:>8}", mutant.name, "MISSED");
                missed.push(mutant.name);
            }
        }
    }
    ensure!(missed.is_empty(), "not found: {}", missed.join(", "));
    Ok(())
}

fn read(arguments: &[String]) -> Result<Wanted> {
    let mut wanted = Wanted::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--share" {
            let share = rest.next().context("--share takes which part of how many, such as 1/4")?;
            let (part, parts) = share.split_once('/').context("a share is such as 1/4")?;
            let (part, parts): (usize, usize) = (part.parse()?, parts.parse()?);
            ensure!((1..=parts).contains(&part), "there is no share {share}");
            wanted.share = Some((part, parts));
        } else if argument.starts_with('-') {
            bail!("there is no option {argument}; there are --share, and parts of names");
        } else {
            wanted.names.push(argument.clone());
        }
    }
    Ok(wanted)
}

/// Returns the chosen mutants. Mutants of one test follow each other, because they share a build.
fn choose(all: Vec<&'static Mutant>, wanted: &Wanted) -> Vec<&'static Mutant> {
    let named = |mutant: &&Mutant| {
        wanted.names.is_empty() || wanted.names.iter().any(|part| mutant.name.contains(part.as_str()))
    };
    let mut chosen: Vec<_> = all.into_iter().filter(named).collect();
    if let Some((part, parts)) = wanted.share {
        let mut place = 0;
        chosen.retain(|_| {
            place += 1;
            place % parts == part % parts
        });
    }
    chosen.sort_by_key(|mutant| mutant.killer);
    chosen
}

/// Checks that the chosen mutants' tests pass on the unbroken code.
fn passes_without(tree: &Tree, chosen: &[&Mutant]) -> Result<()> {
    let mut tests: BTreeMap<Killer, &str> = BTreeMap::new();
    for mutant in chosen.iter().filter(|mutant| mutant.killer != Killer::Simulator) {
        tests.entry(mutant.killer).or_insert(mutant.name);
    }
    for (killer, name) in tests {
        let passes = hunt::test(tree, killer).with_context(|| format!("mutant {name:?}"))?;
        ensure!(passes, "the test of mutant {name:?} fails without the mutant, so it shows nothing");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::root;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn every_mutant_still_has_its_text_exactly_once() {
        let root = root().unwrap();
        for mutant in all() {
            for edit in mutant.edits {
                let text = std::fs::read_to_string(root.join(edit.file)).unwrap();
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

    #[test]
    fn no_two_mutants_have_one_name() {
        let mut names: Vec<_> = all().map(|mutant| mutant.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_share_and_names_are_told_apart() {
        let wanted = read(&words("--share 2/4 fair redlock")).unwrap();
        assert_eq!(wanted, Wanted { share: Some((2, 4)), names: words("fair redlock") });
        assert_eq!(read(&[]).unwrap(), Wanted::default());
        for wrong in ["--share", "--share 5/4", "--share 0/4", "--share half", "--all"] {
            assert!(read(&words(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_shares_together_are_all_and_each_has_both_kinds() {
        let mut tried = Vec::new();
        for part in 1..=10 {
            let chosen = choose(all().collect(), &Wanted { share: Some((part, 10)), names: Vec::new() });
            let by_seed = chosen.iter().filter(|mutant| mutant.killer == Killer::Simulator).count();
            assert!((1..chosen.len()).contains(&by_seed), "part {part}");
            tried.extend(chosen.into_iter().map(|mutant| mutant.name));
        }
        let mut all: Vec<_> = all().map(|mutant| mutant.name).collect();
        all.sort_unstable();
        tried.sort_unstable();
        assert_eq!(tried, all);
    }
}
