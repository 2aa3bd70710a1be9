//! Protocol mutants: each breaks one rule of the protocol (reliability, 6.3), to show that the simulator would notice.
//!
//! Invariant: a mutant compiles, and without it the code is right.
//! Called by: `cargo x mutants`.

/// One broken rule.
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    pub(crate) edits: &'static [Edit],
}

/// A text and what stands in its place.
pub(crate) struct Edit {
    pub(crate) file: &'static str,
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
}

impl Mutant {
    /// The world in which it is hunted.
    pub(crate) fn mode(&self) -> &'static str {
        if self.name.starts_with("redlock: ") { "quorum" } else { "fast" }
    }
}

macro_rules! mutants {
    ($($name:literal: $($file:ident, $from:literal => $to:literal);+ $(;)?)*) => {
        pub(super) const MUTANTS: &[super::Mutant] = &[
            $(super::Mutant { name: $name, edits: &[$(super::Edit { file: $file, from: $from, to: $to }),+] }),*
        ];
    };
}

mod engine;
mod family;

/// All mutants.
pub(crate) fn all() -> impl Iterator<Item = &'static Mutant> {
    engine::MUTANTS.iter().chain(family::MUTANTS)
}
