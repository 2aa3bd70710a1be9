//! The problems of one use of the attribute, reported together.
//!
//! Invariant: a problem points at the user's code and says what to write instead.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::Error;

/// The problems found so far.
#[derive(Default)]
pub(crate) struct Problems(Option<Error>);

impl Problems {
    /// Adds a problem.
    pub(crate) fn add(&mut self, problem: Error) {
        match &mut self.0 {
            Some(first) => first.combine(problem),
            none => *none = Some(problem),
        }
    }

    /// Adds a problem at these tokens.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl std::fmt::Display) {
        self.add(Error::new_spanned(tokens, message));
    }

    /// Returns the value, or adds the problem and returns `None`.
    pub(crate) fn ok<T>(&mut self, outcome: Result<T, Error>) -> Option<T> {
        outcome.map_err(|problem| self.add(problem)).ok()
    }

    /// Returns code that makes the compiler report the problems, or `None` if there are none.
    pub(crate) fn into_code(self) -> Option<TokenStream> {
        self.0.map(Error::into_compile_error)
    }
}

#[cfg(test)]
impl Problems {
    /// Returns the messages, for tests.
    pub(crate) fn messages(self) -> Vec<String> {
        self.0.map(|problems| problems.into_iter().map(|one| one.to_string()).collect()).unwrap_or_default()
    }
}
