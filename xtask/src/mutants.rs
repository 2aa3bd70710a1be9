//! Mutants, each of which breaks one rule on purpose, to show that a test or the simulator notices.
//!
//! Invariant: a mutant compiles, and without it the code is right.

/// One broken rule.
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    pub(crate) killer: Killer,
    pub(crate) edits: &'static [Edit],
}

/// The check that notices a mutant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Killer {
    /// A seed of the simulator.
    Simulator,
    /// One quick test, by the whole path that `cargo test` prints. The target is the name of a file in `tests/`, or `lib`.
    Test { package: &'static str, target: &'static str, test: &'static str },
}

/// A replacement of a text, which occurs once in the file.
pub(crate) struct Edit {
    pub(crate) file: &'static str,
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
}

impl Mutant {
    /// The mode of the simulator that hunts this mutant.
    pub(crate) fn mode(&self) -> &'static str {
        if self.name.starts_with("redlock: ") { "quorum" } else { "fast" }
    }
}

/// Lists mutants. The simulator hunts `"name": FILE, "from" => "to"; ..`; the named test notices
/// `"name", "package" "target" "test": FILE, "from" => "to"; ..`.
macro_rules! mutants {
    (@killer) => { super::Killer::Simulator };
    (@killer $package:literal $target:literal $test:literal) => {
        super::Killer::Test { package: $package, target: $target, test: $test }
    };
    ($($name:literal $(, $package:literal $target:literal $test:literal)?:
       $($file:ident, $from:literal => $to:literal);+ $(;)?)*) => {
        pub(super) const MUTANTS: &[super::Mutant] = &[$(super::Mutant {
            name: $name,
            killer: mutants!(@killer $($package $target $test)?),
            edits: &[$(super::Edit { file: $file, from: $from, to: $to }),+],
        }),*];
    };
}

mod command;
mod engine;
mod family;
mod redis;
mod stepped;
mod tested;

/// All mutants, beginning with the mutants of the simulator.
pub(crate) fn all() -> impl Iterator<Item = &'static Mutant> {
    let of_client = redis::MUTANTS.iter().chain(tested::MUTANTS).chain(command::MUTANTS);
    let of_tests = stepped::MUTANTS.iter().chain(of_client);
    engine::MUTANTS.iter().chain(family::MUTANTS).chain(of_tests)
}
