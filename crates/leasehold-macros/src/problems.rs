//! What is wrong with a use of the attribute, all of it at once.
//!
//! Invariant: a problem points at what the user wrote and says what to write instead.
//! Called by: every stage before the expansion.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::Error;

/// The problems found so far.
#[derive(Default)]
pub(crate) struct Problems(Option<Error>);

impl Problems {
    /// One more.
    pub(crate) fn add(&mut self, problem: Error) {
        match &mut self.0 {
            Some(first) => first.combine(problem),
            none => *none = Some(problem),
        }
    }

    /// One more, at these tokens.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl std::fmt::Display) {
        self.add(Error::new_spanned(tokens, message));
    }

    /// The value, or `None` and one more problem.
    pub(crate) fn ok<T>(&mut self, outcome: Result<T, Error>) -> Option<T> {
        outcome.map_err(|problem| self.add(problem)).ok()
    }

    /// Code that has the compiler report them; `None` when there are none.
    pub(crate) fn into_code(self) -> Option<TokenStream> {
        self.0.map(Error::into_compile_error)
    }
}

#[cfg(test)]
impl Problems {
    /// The messages, for tests.
    pub(crate) fn messages(self) -> Vec<String> {
        self.0.map(|problems| problems.into_iter().map(|one| one.to_string()).collect()).unwrap_or_default()
    }
}
