//! The rule for mutants: the test that kills a mutant exists, in the module that the mutant names.
//!
//! Invariant: the rule knows files, not the modules inside them, because macros make some of those.

use super::circles::module;
use super::source::Source;
use crate::mutants::{Killer, Mutant};

/// Mutants whose test is in no file that its path fits.
pub(super) fn missing(mutants: &[Mutant], sources: &[Source]) -> Vec<String> {
    let is_missing = |mutant: &&Mutant| match &mutant.killer {
        Killer::Simulator { .. } => false,
        Killer::Test { package, target, test } => {
            !sources.iter().any(|source| has_test(source, package, target, test))
        }
    };
    let missing = mutants.iter().filter(is_missing);
    missing.map(|mutant| format!("{}: the test that kills it does not exist", mutant.patch)).collect()
}

fn has_test(source: &Source, package: &str, target: &str, test: &str) -> bool {
    let file = source.path.strip_prefix(&format!("crates/{package}/"));
    let module = file.and_then(|file| match target {
        "lib" => Some(module(file.strip_prefix("src/")?)),
        target => match file.strip_prefix("tests/")?.strip_prefix(target)? {
            ".rs" => Some(Vec::new()),
            below => Some(module(below.strip_prefix('/')?)),
        },
    });
    let parts: Vec<&str> = test.split("::").collect();
    let has_name = || source.all_code().iter().any(|token| parts.last() == Some(&token.text));
    module.is_some_and(|module| parts.starts_with(&module)) && has_name()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_of_a_mutant_is_in_a_file_that_its_path_fits() {
        let fits = |path: &str, target: &str, test: &str| {
            let source = Source::new(path, "on_both! { async { it_is_free, } } // it_was_free").unwrap();
            has_test(&source, "leasehold", target, test)
        };
        assert!(fits("crates/leasehold/src/lock/guard.rs", "lib", "lock::guard::tests::it_is_free"));
        assert!(fits("crates/leasehold/tests/lock.rs", "lock", "embedded::it_is_free"));
        assert!(fits("crates/leasehold/tests/it/main.rs", "it", "it_is_free"));
        assert!(fits("crates/leasehold/tests/it/lock.rs", "it", "lock::embedded::it_is_free"));
        for (path, target, test) in [
            ("crates/leasehold/src/lock/guard.rs", "lib", "guard::tests::it_is_free"),
            ("crates/leasehold/src/lock/guard.rs", "lib", "lock::guard::tests::it_was_free"),
            ("crates/leasehold/tests/it/lock.rs", "it", "embedded::it_is_free"),
            ("crates/leasehold/tests/locks.rs", "lock", "it_is_free"),
            ("crates/leasehold-cli/tests/lock.rs", "lock", "it_is_free"),
        ] {
            assert!(!fits(path, target, test), "{path} {test}");
        }
    }
}
