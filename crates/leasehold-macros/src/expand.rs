//! The function that takes the place of the one that was written.
//!
//! Invariant: its signature, attributes and body are the user's tokens; every name of ours is out of their reach.
//! Called by: the attribute.
//!
//! # How it works
//! The section is made in a block of its own, so that nothing of it lives across an await. The body is a future, or a
//! closure, and not a closure that makes a future: so it may borrow the arguments, and is `Send` when the body is.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::{VisitMut, visit_type_mut};
use syn::{ReturnType, Type};

use crate::check::check;
use crate::function::Function;
use crate::krate::krate;
use crate::name::name;
use crate::options::{Options, value};
use crate::problems::Problems;
use crate::value::{Kind, OnBusy, OnFinish, OnLost};

/// The attribute.
pub(crate) fn locked(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut problems = Problems::default();
    let function = problems.ok(syn::parse2::<Function>(item.clone()));
    let expansion = function.and_then(|function| {
        let options = Options::read(options, &mut problems);
        function.check(&mut problems);
        check(&options, &function, &mut problems);
        let name = value(options.name.as_ref()).and_then(|value| name(value, &function, &mut problems))?;
        Some(Expansion::new(function, options, name))
    });
    match (problems.into_code(), expansion) {
        (None, Some(expansion)) => expansion.function(),
        // With the function as it was, so that its uses are not errors as well.
        (errors, _) => quote!(#errors #item),
    }
}

/// A function and what becomes of it.
struct Expansion {
    function: Function,
    options: Options,
    name: TokenStream,
    krate: TokenStream,
    /// What it returns, with `_` for what cannot be written in a body.
    output: Type,
}

impl Expansion {
    fn new(function: Function, options: Options, name: TokenStream) -> Self {
        let mut output = match &function.signature.output {
            ReturnType::Type(_, output) => (**output).clone(),
            ReturnType::Default => syn::parse_quote_spanned!(function.signature.ident.span()=> ()),
        };
        Opaque.visit_type_mut(&mut output);
        Self { function, options, name, krate: krate(), output }
    }

    fn function(&self) -> TokenStream {
        let Function { attributes, visibility, signature, body } = &self.function;
        let (enter, run) = (self.enter(), self.run());
        let token = value(self.options.fence.as_ref()).map(|token| {
            let entered = hidden("entered");
            quote_spanned!(token.span()=> let #token: u64 = #entered.guard().token();)
        });
        let block = braced(quote!(#enter #token #run), body.span());
        quote! {
            #(#attributes)*
            #visibility #signature #block
        }
    }

    /// Waits for the lock, and leaves the function when there is none.
    fn enter(&self) -> TokenStream {
        let krate = &self.krate;
        let [entered, section, error] = ["entered", "section", "error"].map(hidden);
        let (made, awaited, refused) = (self.section(), self.awaited(), self.refused());
        let busy = match value(self.options.on_busy.as_ref()) {
            None | Some(OnBusy::Error) => None,
            Some(OnBusy::Skip) => Some(self.skipped()),
            Some(OnBusy::Fallback(path)) => Some(self.fallback(path)),
        };
        let busy = busy.map(|busy| {
            quote_spanned! {Span::mixed_site()=>
                ::core::result::Result::Err(#krate::RunError::Busy { .. }) => return #busy,
            }
        });
        quote_spanned! {Span::mixed_site()=>
            let #section = { #made };
            let #entered = #section.enter() #awaited;
            let #entered = match #entered {
                ::core::result::Result::Ok(#entered) => #entered,
                #busy
                ::core::result::Result::Err(#error) => return #refused,
            };
        }
    }

    /// The section, as the value of a block.
    fn section(&self) -> TokenStream {
        let [name, client, section] = ["name", "client", "section"].map(hidden);
        let (made, get_client, lock) = (&self.name, self.client(), self.lock());
        let terms = self.terms();
        let section_of = match value(self.options.kind.as_ref()) {
            Some(Kind::Semaphore(most)) => quote_spanned!(Span::mixed_site()=> .section(#most)),
            _ => quote_spanned!(Span::mixed_site()=> .section()),
        };
        quote_spanned! {Span::mixed_site()=>
            let #name = #made;
            #get_client
            let #section = #client #lock #terms #section_of;
            #section
        }
    }

    /// `let client: &Client = ..;`
    fn client(&self) -> TokenStream {
        let krate = &self.krate;
        let [client, installed, error] = ["client", "installed", "error"].map(hidden);
        let face = if self.function.is_async() { quote!(#krate) } else { quote!(#krate::blocking) };
        if let Some(given) = value(self.options.client.as_ref()) {
            return quote_spanned!(given.span()=> let #client: &#face::Client = &#given;);
        }
        let refused = self.refused();
        quote_spanned! {Span::mixed_site()=>
            let #installed = match #face::installed() {
                ::core::result::Result::Ok(#installed) => #installed,
                ::core::result::Result::Err(#error) => return #refused,
            };
            let #client = &#installed;
        }
    }

    /// `.fair_lock(name)`
    fn lock(&self) -> TokenStream {
        let name = hidden("name");
        let kind = value(self.options.kind.as_ref()).unwrap_or(&Kind::Reentrant);
        match kind {
            Kind::Reentrant => quote_spanned!(Span::mixed_site()=> .lock(#name)),
            Kind::Fair => quote_spanned!(Span::mixed_site()=> .fair_lock(#name)),
            Kind::Fenced => quote_spanned!(Span::mixed_site()=> .fenced_lock(#name)),
            Kind::Read => quote_spanned!(Span::mixed_site()=> .rw_lock(#name).read_lock()),
            Kind::Write => quote_spanned!(Span::mixed_site()=> .rw_lock(#name).write_lock()),
            Kind::Semaphore(_) => quote_spanned!(Span::mixed_site()=> .expirable_semaphore(#name)),
        }
    }

    /// `.lease(..)` and its like: what is said of the lock, before the section.
    fn terms(&self) -> TokenStream {
        let options = &self.options;
        let spans = [
            ("lease", &options.lease),
            ("watchdog", &options.watchdog),
            ("max_hold", &options.max_hold),
            ("min_hold", &options.min_hold),
        ];
        let mut terms: TokenStream = spans.iter().filter_map(|(method, given)| {
            let (method, span) = (hidden(method), value(given.as_ref())?);
            Some(quote_spanned!(Span::mixed_site()=> .#method(#span)))
        }).collect();
        if let Some(most) = value(options.max_renewals.as_ref()) {
            terms.extend(quote_spanned!(Span::mixed_site()=> .max_renewals(#most)));
        }
        terms
    }
}
