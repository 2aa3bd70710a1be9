//! The function under the attribute.
//!
//! Invariant: its body is kept as the user wrote it and is never parsed.

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{Parse, ParseStream, Parser};
use syn::visit::Visit;
use syn::{
    AttrStyle, Attribute, Error, FnArg, Pat, PatIdent, ReturnType, Safety, Signature, Token, Type,
    TypeParamBound, Visibility,
};

use crate::problems::Problems;

/// A function or method with a body.
pub(crate) struct Function {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) signature: Signature,
    /// The braces and the tokens between them.
    pub(crate) body: Group,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        if !leads_to_a_function(&input.fork().parse::<TokenStream>()?) {
            let problem = "`#[locked]` goes on a function or a method; put it on each function that is to run under \
                           the lock";
            return Err(input.error(problem));
        }
        let signature = input.parse()?;
        if input.peek(Token![;]) {
            let problem =
                "a function without a body cannot be locked; put `#[locked]` on the implementations";
            return Err(Error::new_spanned(signature, problem));
        }
        let block = block(input.parse()?)?;
        let split = |inside: ParseStream<'_>| {
            Ok((inside.call(Attribute::parse_inner)?, inside.parse::<TokenStream>()?))
        };
        let (inner, statements) = split.parse2(block.stream())?;
        attributes.extend(inner.into_iter().map(|inner| Attribute { style: AttrStyle::Outer, ..inner }));
        let mut body = Group::new(Delimiter::Brace, statements);
        body.set_span(block.span());
        Ok(Self { attributes, visibility, signature, body })
    }
}

/// Returns the braces. The braces of a macro's `$body:block` are inside an invisible group.
fn block(tree: TokenTree) -> syn::Result<Group> {
    match tree {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Ok(group),
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
            block(syn::parse2(group.stream())?)
        }
        other => Err(Error::new_spanned(other, "this is where the body of the function goes, in braces")),
    }
}

/// Returns true if the keyword comes before any token that ends an item or opens a block.
fn leads_to_a_function(tokens: &TokenStream) -> bool {
    for token in tokens.clone() {
        match token {
            TokenTree::Ident(word) if word == "fn" => return true,
            TokenTree::Group(_) => return false,
            TokenTree::Punct(mark) if mark.as_char() == ';' => return false,
            _ => {}
        }
    }
    false
}

impl Function {
    pub(crate) fn is_async(&self) -> bool {
        self.signature.asyncness.is_some()
    }

    /// Returns the names that a lock's name can use: the arguments, in any pattern, `self`, and constant parameters.
    pub(crate) fn values(&self) -> Vec<String> {
        let constants = self.signature.generics.const_params().map(|constant| constant.ident.to_string());
        self.bindings().iter().map(Ident::to_string).chain(constants).collect()
    }

    /// Returns the variables that the arguments bind, in any pattern, `self` included.
    pub(crate) fn bindings(&self) -> Vec<Ident> {
        let mut names = Names(Vec::new());
        for argument in &self.signature.inputs {
            match argument {
                FnArg::Receiver(receiver) => names.0.push(Ident::new("self", receiver.self_token.span)),
                FnArg::Typed(argument) => names.visit_pat(&argument.pat),
            }
        }
        names.0
    }

    /// Returns the arguments for a call of another function. An argument without a name is an error.
    pub(crate) fn handed_on(&self) -> syn::Result<Vec<Ident>> {
        let named = self.signature.inputs.iter().map(|argument| match argument {
            FnArg::Receiver(receiver) => Ok(Ident::new("self", receiver.self_token.span)),
            FnArg::Typed(argument) => match &*argument.pat {
                Pat::Ident(name) if name.subpat.is_none() && name.by_ref.is_none() => Ok(name.ident.clone()),
                pattern => {
                    let problem = "`fallback` passes on every argument, but this one has no name; name it here and \
                                   destructure it in the body";
                    Err(Error::new_spanned(pattern, problem))
                }
            },
        });
        named.collect()
    }

    /// Reports functions that cannot be locked. `may_block` is true with the feature `blocking`.
    pub(crate) fn check(&self, may_block: bool, problems: &mut Problems) {
        let signature = &self.signature;
        if let Some(word) = &signature.constness {
            problems.at(word, "a `const fn` cannot wait for a lock; leave `const` out");
        }
        if let Safety::Unsafe(word) = &signature.safety {
            let message = "an `unsafe fn` cannot be locked, because what its caller promised may no longer be true \
                           after a wait; lock a safe function that calls it";
            problems.at(word, message);
        }
        if let Some(abi) = &signature.abi {
            let message = "an `extern` function cannot be locked, because its callers cannot handle an error; lock a \
                           function that it calls";
            problems.at(abi, message);
        }
        let is_plain = signature.constness.is_none() && signature.abi.is_none();
        if is_plain && !self.is_async() {
            self.check_blocking(may_block, problems);
        }
    }

    fn check_blocking(&self, may_block: bool, problems: &mut Problems) {
        let word = &self.signature.fn_token;
        if let ReturnType::Type(_, output) = &self.signature.output
            && returns_a_future(output)
        {
            let message = "this function returns a future, so the lock would only cover making it; lock an `async \
                           fn` and call that here. (Attributes such as `#[async_trait]` turn an `async fn` into such \
                           a function before `#[locked]` sees it.)";
            // The problem is at the function's name, since another attribute may have generated every token of the
            // type.
            problems.at(&self.signature.ident, message);
        } else if !may_block {
            let message = "a function that is not async needs the feature `blocking` of `leasehold`, or an `async` \
                           here. (If another attribute has made this out of an `async fn`, put `#[locked]` above \
                           that attribute.)";
            problems.at(word, message);
        }
    }
}

/// Returns true for `impl Future`, `Pin<Box<dyn Future>>`, and their aliases in the crate `futures`.
fn returns_a_future(output: &Type) -> bool {
    match output {
        Type::ImplTrait(output) => output.bounds.iter().any(|bound| match bound {
            TypeParamBound::Trait(bound) => is_called(&bound.path, &["Future"]),
            _ => false,
        }),
        Type::Path(output) if is_called(&output.path, &["BoxFuture", "LocalBoxFuture"]) => true,
        Type::Path(output) if is_called(&output.path, &["Pin"]) => {
            output.to_token_stream().to_string().contains("Future")
        }
        Type::Paren(output) => returns_a_future(&output.elem),
        Type::Group(output) => returns_a_future(&output.elem),
        _ => false,
    }
}

fn is_called(path: &syn::Path, names: &[&str]) -> bool {
    path.segments.last().is_some_and(|last| names.iter().any(|name| last.ident == name))
}

/// The names that patterns bind.
struct Names(Vec<Ident>);

impl<'ast> Visit<'ast> for Names {
    fn visit_pat_ident(&mut self, pattern: &'ast PatIdent) {
        self.0.push(pattern.ident.clone());
        syn::visit::visit_pat_ident(self, pattern);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(item: &str, may_block: bool) -> Vec<String> {
        let function: Function = syn::parse_str(item).unwrap();
        let mut problems = Problems::default();
        function.check(may_block, &mut problems);
        problems.messages()
    }

    #[test]
    fn a_function_that_blocks_needs_the_feature() {
        let item = "pub(crate) fn charge(&self) -> Result<(), E> { Ok(()) }";
        assert_eq!(problems(item, true), Vec::<String>::new());
        let found = problems(item, false);
        assert!(found.len() == 1 && found[0].contains("the feature `blocking` of `leasehold`"), "{found:?}");
        assert_eq!(problems(&item.replace("fn", "async fn"), false), Vec::<String>::new());
    }

    #[test]
    fn a_function_that_returns_a_future_does_not_block() {
        for output in [
            "impl Future<Output = Result<(), E>> + Send",
            "impl std::future::Future<Output = Result<(), E>>",
            "Pin<Box<dyn Future<Output = Result<(), E>> + Send + 'async_trait>>",
            "::core::pin::Pin<Box<dyn ::core::future::Future<Output = ()>>>",
            "BoxFuture<'static, ()>",
            "(futures::future::LocalBoxFuture<'_, ()>)",
        ] {
            let found = problems(&format!("fn charge() -> {output} {{}}"), true);
            assert!(
                found.len() == 1 && found[0].contains("this function returns a future"),
                "{output}: {found:?}"
            );
        }
        for output in ["Result<(), E>", "Result<impl Future, E>", "impl Iterator", "Pin<Box<u8>>"] {
            assert_eq!(problems(&format!("fn charge() -> {output} {{}}"), true), Vec::<String>::new());
        }
    }

    #[test]
    fn name_variables_are_found_in_every_pattern() {
        let item = "async fn f<const N: usize, T>(&self, a: u8, mut b: u8, (c, [d, ..]): X, E { e, f: g }: E, h @ _: u8) {}";
        let function: Function = syn::parse_str(item).unwrap();
        assert_eq!(function.values(), ["self", "a", "b", "c", "d", "e", "g", "h", "N"]);
    }
}
