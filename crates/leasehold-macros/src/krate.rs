//! The path of `leasehold` in the user's crate.
//!
//! Invariant: absolute, so that nothing of the user's is taken for it.
//! Called by: the expansion.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;

/// `::leasehold`, or what the user's manifest calls it.
pub(crate) fn krate() -> TokenStream {
    named(crate_name("leasehold").ok())
}

/// The library itself, its tests and examples know it by its own name; so does a build without a manifest.
fn named(found: Option<FoundCrate>) -> TokenStream {
    let name = match found {
        Some(FoundCrate::Name(name)) => name,
        Some(FoundCrate::Itself) | None => "leasehold".to_owned(),
    };
    let name = Ident::new(&name, Span::call_site());
    quote_spanned!(Span::call_site()=> ::#name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renamed_dependency_has_its_new_name() {
        assert_eq!(named(Some(FoundCrate::Name("locks".to_owned()))).to_string(), ":: locks");
    }

    #[test]
    fn without_a_manifest_it_has_its_own_name() {
        assert_eq!(named(None).to_string(), ":: leasehold");
        assert_eq!(named(Some(FoundCrate::Itself)).to_string(), ":: leasehold");
    }
}
