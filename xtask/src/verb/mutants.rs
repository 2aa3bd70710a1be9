//! `cargo x mutants`: breaks the code on purpose, one rule at a time, and checks that the simulator or a named test
//! notices.
//!
//! Invariant: the checkout does not change, since each mutant is built in a copy. A patch that no longer applies is an
//! error, and so is a test that fails without the mutant.

mod hunt;
mod refresh;
mod tree;

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};

use crate::mutants::{Killer, Mutant, all};
use hunt::Found;
use tree::Tree;

/// The choice of mutants to try.
#[derive(Debug, Default, PartialEq)]
struct Wanted {
    /// Writes stale patches again, and tries nothing.
    refresh: bool,
    /// The `k`-th of `n` parts.
    share: Option<(usize, usize)>,
    /// This many mutants of each crate.
    each: Option<usize>,
    /// The tests have passed on the unbroken code just before, so they need not run on it.
    passed: bool,
    /// Parts of names.
    names: Vec<String>,
}

/// Builds and tries each mutant, or the mutants whose names contain an argument, and prints the effort of each.
///
/// `cargo x mutants --share 1/4` tries every fourth of them, and `cargo x mutants --each 1` one of each crate.
/// With `--passed`, the tests do not run on the unbroken code first. `cargo x mutants --refresh NAME` writes a stale patch again.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let (all, wanted) = (all()?, read(arguments)?);
    let chosen = choose(&all, &wanted);
    ensure!(!chosen.is_empty(), "no mutant has such a name");
    if wanted.refresh {
        return chosen.into_iter().try_for_each(refresh::refresh);
    }
    let tree = Tree::copy()?;
    if !wanted.passed {
        passes_without(&tree, &chosen)?;
    }
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
                println!("{:<52}{:>8}  {}", mutant.name, "MISSED", mutant.breaks);
                missed.push(mutant.name.as_str());
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
        } else if argument == "--each" {
            wanted.each = Some(rest.next().context("--each takes a number of mutants")?.parse()?);
        } else if argument == "--passed" {
            wanted.passed = true;
        } else if argument == "--refresh" {
            wanted.refresh = true;
        } else if argument.starts_with('-') {
            bail!(
                "there is no option {argument}; there are --share, --each, --passed, --refresh, and parts of names"
            );
        } else {
            wanted.names.push(argument.clone());
        }
    }
    ensure!(
        !wanted.refresh || !wanted.names.is_empty(),
        "--refresh takes parts of the names of stale mutants"
    );
    Ok(wanted)
}

/// Returns the chosen mutants. Mutants of one test follow each other, because they share a build.
fn choose<'a>(all: &'a [Mutant], wanted: &Wanted) -> Vec<&'a Mutant> {
    let named = |mutant: &&Mutant| {
        wanted.names.is_empty() || wanted.names.iter().any(|part| mutant.name.contains(part.as_str()))
    };
    let mut chosen: Vec<_> = all.iter().filter(named).collect();
    if let Some((part, parts)) = wanted.share {
        let mut place = 0;
        chosen.retain(|_| {
            place += 1;
            place % parts == part % parts
        });
    }
    if let Some(each) = wanted.each {
        chosen = spread(&chosen, each);
    }
    chosen.sort_by(|one, other| one.killer.cmp(&other.killer));
    chosen
}

/// Returns up to this many mutants of each crate, spread over those that there are.
fn spread<'a>(mutants: &[&'a Mutant], each: usize) -> Vec<&'a Mutant> {
    let mut groups: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
    for mutant in mutants {
        groups.entry(mutant.killer.noticed_in()).or_default().push(mutant);
    }
    let of_group = |group: Vec<&'a Mutant>| {
        let taken = each.min(group.len());
        (0..taken).map(move |number| group[(2 * number + 1) * group.len() / (2 * taken)])
    };
    groups.into_values().flat_map(of_group).collect()
}

/// Checks that the chosen mutants' tests pass on the unbroken code.
fn passes_without(tree: &Tree, chosen: &[&Mutant]) -> Result<()> {
    let tests: BTreeMap<&Killer, &str> =
        chosen.iter().map(|mutant| (&mutant.killer, mutant.name.as_str())).collect();
    for (killer, name) in tests {
        let passes = hunt::test(tree, killer).with_context(|| format!("mutant {name:?}"))?;
        ensure!(passes, "the test of mutant {name:?} fails without the mutant, so it shows nothing");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::verify::CHOICE_OF_MUTANTS;
    use super::*;
    use crate::shell::root;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn every_patch_applies() {
        let root = root().unwrap();
        let stale = all().unwrap().into_iter().filter_map(|mutant| {
            let applies = mutant.check(&root).and_then(|()| mutant.apply(&root, &["--check"]));
            applies.err().map(|error| format!("{error:#}\n"))
        });
        let stale: String = stale.collect();
        assert!(stale.is_empty(), "{stale}");
    }

    #[test]
    fn shares_and_names_are_distinguished() {
        let wanted = read(&words("--share 2/4 fair redlock")).unwrap();
        assert_eq!(read(&words("--each 3")).unwrap(), Wanted { each: Some(3), ..Wanted::default() });
        assert_eq!(wanted, Wanted { share: Some((2, 4)), names: words("fair redlock"), ..Wanted::default() });
        assert!(read(&words("--refresh fair")).unwrap().refresh && read(&words("--passed")).unwrap().passed);
        assert_eq!(read(&[]).unwrap(), Wanted::default());
        for wrong in ["--share", "--share 5/4", "--share 0/4", "--share half", "--each", "--all", "--refresh"]
        {
            assert!(read(&words(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_mutants_of_verify_are_one_of_the_engine_and_one_of_the_wire() {
        let all = all().unwrap();
        let tried = choose(&all, &read(&CHOICE_OF_MUTANTS.map(str::to_owned)).unwrap());
        let crates: Vec<&str> = tried.iter().map(|mutant| mutant.killer.noticed_in()).collect();
        assert_eq!(crates, ["leasehold-proto", "leasehold-store"]);
    }

    #[test]
    fn the_shares_cover_all_mutants_and_each_has_both_kinds() {
        let all = all().unwrap();
        let mut tried = Vec::new();
        for part in 1..=10 {
            let chosen = choose(&all, &Wanted { share: Some((part, 10)), ..Wanted::default() });
            let by_seed =
                chosen.iter().filter(|mutant| matches!(mutant.killer, Killer::Simulator { .. })).count();
            assert!((1..chosen.len()).contains(&by_seed), "part {part}");
            tried.extend(chosen.into_iter().map(|mutant| &mutant.name));
        }
        let mut all: Vec<_> = all.iter().map(|mutant| &mutant.name).collect();
        all.sort_unstable();
        tried.sort_unstable();
        assert_eq!(tried, all);
    }
}
