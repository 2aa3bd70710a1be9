//! The spans of generated code: which code sees its names, and where the compiler reports its errors.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use syn::spanned::Spanned;

/// Returns the span by which the compiler reports errors of generated code at the user's code.
pub(crate) fn ours_at(written: &impl Spanned) -> Span {
    Span::mixed_site().located_at(written.span())
}

/// Returns an identifier that the user's code cannot see, or the name of a method.
pub(crate) fn hidden(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// Returns a block that the compiler reports at this span.
pub(crate) fn braced(statements: TokenStream, at: Span) -> Group {
    let mut block = Group::new(Delimiter::Brace, statements);
    block.set_span(at);
    block
}
