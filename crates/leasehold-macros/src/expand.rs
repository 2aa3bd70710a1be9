//! The function that replaces the user's function.
//!
//! Invariant: its signature, attributes and body are the user's tokens, and the user's code cannot see any generated
//! name.
//!
//! # How it works
//! The section is made in a block of its own, so that none of its values lives across an await. The body is a future,
//! or a closure, and not a closure that makes a future, so it can borrow the arguments, and is `Send` when the body is.

use proc_macro2::{Literal, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::{VisitMut, visit_type_mut};
use syn::{Expr, ExprLit, Lit, ReturnType, Type};

use crate::check::check;
use crate::function::Function;
use crate::name::name;
use crate::options::{Options, value};
use crate::problems::Problems;
use crate::spans::{braced, hidden, ours_at};
use crate::value::{Kind, OnBusy, OnFinish, OnLost};

/// Expands the attribute.
pub(crate) fn locked(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut problems = Problems::default();
    let function = problems.ok(syn::parse2::<Function>(item.clone()));
    let expansion = function.and_then(|function| {
        let options = Options::read(options, &mut problems);
        function.check(cfg!(feature = "blocking"), &mut problems);
        check(&options, &function, &mut problems);
        let names = options.names().into_iter().map(|value| name(value, &function, &mut problems));
        // Collected first, so that each name with a problem is reported.
        let names = names.collect::<Vec<_>>().into_iter().collect::<Option<Vec<_>>>()?;
        Some(Expansion::new(function, options, names))
    });
    match (problems.into_code(), expansion) {
        (None, Some(expansion)) => expansion.function(),
        // The original function stays, so that its uses are not errors as well.
        (errors, _) => quote!(#errors #item),
    }
}

/// A function and the parts of its expansion.
struct Expansion {
    function: Function,
    options: Options,
    /// The code of each name.
    names: Vec<TokenStream>,
    /// The path of the library in the user's crate.
    krate: TokenStream,
    /// The return type, with `_` for types that cannot be written in a body.
    output: Type,
}

impl Expansion {
    fn new(function: Function, options: Options, names: Vec<TokenStream>) -> Self {
        let mut output = match &function.signature.output {
            ReturnType::Type(_, output) => (**output).clone(),
            ReturnType::Default => syn::parse_quote_spanned!(function.signature.ident.span()=> ()),
        };
        Opaque.visit_type_mut(&mut output);
        let krate = match value(options.library.as_ref()) {
            Some(path) => quote!(#path),
            None => quote!(::leasehold),
        };
        Self { function, options, names, krate, output }
    }

    fn function(&self) -> TokenStream {
        let Function { attributes, visibility, signature, body } = &self.function;
        let (enter, run) = (self.enter(), self.run());
        let token = value(self.options.fence.as_ref()).map(|token| {
            let entered = hidden("entered");
            quote_spanned!(ours_at(token)=> let #token: ::core::primitive::u64 = #entered.guard().token();)
        });
        let block = braced(quote!(#enter #token #run), body.span());
        quote! {
            #(#attributes)*
            #visibility #signature #block
        }
    }

    /// Generates the acquire, which returns from the function if it fails.
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

    /// Generates the section, as the value of a block.
    fn section(&self) -> TokenStream {
        let section = hidden("section");
        let (get_client, locked, options) = (self.client(), self.locked(), self.section_options());
        let section_of = match value(self.options.kind.as_ref()) {
            Some(Kind::Semaphore(most)) => quote_spanned!(Span::mixed_site()=> .section(#most)),
            _ => quote_spanned!(Span::mixed_site()=> .section()),
        };
        quote_spanned! {Span::mixed_site()=>
            #get_client
            let #section = #locked #section_of #options;
            #section
        }
    }

    /// Generates the lock, or the locks together.
    fn locked(&self) -> TokenStream {
        let api = self.api();
        let mut locks = self.options.names().into_iter().zip(&self.names).map(|(given, made)| {
            let [name, client] = ["name", "client"].map(hidden);
            let (lock, terms) = (self.lock(given), self.terms(given));
            // The lock is a value of its own, so that its name does not live across an await.
            quote_spanned!(Span::mixed_site()=> { let #name = #made; #client #lock #terms })
        });
        if self.options.has_several() {
            return quote_spanned! {Span::mixed_site()=>
                #api::MultiLock::of([#(::core::convert::Into::into(#locks)),*])
            };
        }
        locks.next().unwrap_or_default()
    }

    /// Returns the module with the types of this function's API.
    fn api(&self) -> TokenStream {
        let krate = &self.krate;
        if self.function.is_async() { quote!(#krate) } else { quote!(#krate::blocking) }
    }

    /// Generates `let client: &Client = ..;`.
    fn client(&self) -> TokenStream {
        let (krate, api) = (&self.krate, self.api());
        let [client, installed, error] = ["client", "installed", "error"].map(hidden);
        if let Some(given) = value(self.options.redlock.as_ref()) {
            let borrow = borrow(given);
            return quote_spanned! {given.span()=>
                let #client = #borrow #given;
                let #client: &#api::Redlock = #client;
            };
        }
        if let Some(given) = value(self.options.client.as_ref()) {
            let kind = if self.function.is_async() { quote!(AsyncClient) } else { quote!(BlockingClient) };
            let borrow = borrow(given);
            // The span of the user's value makes the compiler report a client of the wrong type there.
            let mut of_user = client.clone();
            of_user.set_span(ours_at(given));
            // Only a binding of its own keeps a temporary client until the end of the block.
            return quote_spanned! {given.span()=>
                let #client = #borrow #given;
                let #client: &#api::Client = #krate::__private::#kind::client(#of_user);
            };
        }
        let refused = self.refused();
        quote_spanned! {Span::mixed_site()=>
            let #installed = match #api::installed() {
                ::core::result::Result::Ok(#installed) => #installed,
                ::core::result::Result::Err(#error) => return #refused,
            };
            let #client = &#installed;
        }
    }

    /// Generates `.fair_lock(name)`.
    fn lock(&self, given: &Expr) -> TokenStream {
        // The span of the user's name makes the compiler report a name of the wrong type there.
        let mut name = hidden("name");
        name.set_span(ours_at(given));
        let kind = value(self.options.kind.as_ref()).unwrap_or(&Kind::Reentrant);
        match kind {
            Kind::Reentrant => quote_spanned!(Span::mixed_site()=> .lock(#name)),
            Kind::Fair => quote_spanned!(Span::mixed_site()=> .fair_lock(#name)),
            Kind::Fenced => quote_spanned!(Span::mixed_site()=> .fenced_lock(#name)),
            Kind::Plain => quote_spanned!(Span::mixed_site()=> .plain_lock(#name)),
            Kind::Read => quote_spanned!(Span::mixed_site()=> .rw_lock(#name).read_lock()),
            Kind::Write => quote_spanned!(Span::mixed_site()=> .rw_lock(#name).write_lock()),
            Kind::Semaphore(_) => quote_spanned!(Span::mixed_site()=> .expirable_semaphore(#name)),
        }
    }

    /// Generates `.lease(..)` and the other options of the lock of this name, before the section.
    fn terms(&self, name: &Expr) -> TokenStream {
        let options = &self.options;
        let spans = [
            ("lease", &options.lease),
            ("watchdog", &options.watchdog),
            ("max_hold", &options.max_hold),
            ("min_hold", &options.min_hold),
            ("margin", &options.margin),
        ];
        let mut terms: TokenStream = spans
            .iter()
            .filter_map(|(method, given)| {
                let (method, span) = (hidden(method), value(given.as_ref())?);
                Some(quote_spanned!(Span::mixed_site()=> .#method(#span)))
            })
            .collect();
        // The text between the values is what the names of this function have in common.
        if let Expr::Lit(ExprLit { lit: Lit::Str(template), .. }) = name {
            let template = Literal::string(&template.value());
            terms.extend(quote_spanned!(Span::mixed_site()=> .group(#template)));
        }
        if let Some(most) = value(options.max_renewals.as_ref()) {
            terms.extend(quote_spanned!(Span::mixed_site()=> .max_renewals(#most)));
        }
        if let Some(policy) = value(options.replicas.as_ref()) {
            terms.extend(quote_spanned!(Span::mixed_site()=> .replicas(#policy)));
        }
        terms
    }

    /// Generates `.wait(..)` and the other options of the section.
    fn section_options(&self) -> TokenStream {
        let (krate, options) = (&self.krate, &self.options);
        let wait = value(options.wait.as_ref());
        let wait = wait.map(|wait| quote_spanned!(Span::mixed_site()=> .wait(#wait)));
        let on_finish = value(options.on_finish.as_ref()).map(|on_finish| {
            let choice = hidden(match on_finish {
                OnFinish::Release => "Release",
                OnFinish::Detach => "Detach",
            });
            quote_spanned!(Span::mixed_site()=> .on_finish(#krate::OnFinish::#choice))
        });
        let on_lost = value(options.on_lost.as_ref()).map(|on_lost| {
            let choice = hidden(match on_lost {
                OnLost::Cancel => "Cancel",
                OnLost::Finish => "Finish",
            });
            quote_spanned!(Span::mixed_site()=> .on_lost(#krate::OnLost::#choice))
        });
        quote!(#wait #on_finish #on_lost)
    }

    /// Generates the run of the body under the lock, as the function's last expression.
    fn run(&self) -> TokenStream {
        let [entered, body, value, error, never] = ["entered", "body", "value", "error", "never"].map(hidden);
        let Function { body: written, .. } = &self.function;
        let (output, awaited, refused) = (&self.output, self.awaited(), self.refused());
        let statements = written.stream();
        // The body owns every argument, also one that it does not name, so that all are dropped before the release. It
        // drops them in the order in which it first names them: the last argument first, as in any function.
        let owned = self.function.bindings();
        let last_first = owned.iter().rev();
        let owned = (!owned.is_empty()).then(|| {
            // Users name an argument `_x` because their own code does not use it.
            quote_spanned! {Span::mixed_site()=>
                #[allow(clippy::used_underscore_binding)]
                let _ = (#(&#last_first,)*);
            }
        });
        let (before, made) = if self.function.is_async() {
            // This code never runs, and tells the compiler the output type of the future.
            let returns = quote_spanned! {Span::mixed_site()=>
                if let ::core::option::Option::Some(#never) = ::core::option::Option::None::<#output> {
                    return #never;
                }
            };
            let block = braced(quote!(#owned #returns #statements), written.span());
            (Some(quote_spanned!(Span::mixed_site()=> let #body = async move #block;)), quote!(#body))
        } else {
            // The closure is written as an argument, so the compiler infers that it is called once and may return its
            // captures.
            let block = braced(quote!(#owned #statements), written.span());
            (None, quote_spanned!(Span::mixed_site()=> move || -> #output #block))
        };
        quote_spanned! {Span::mixed_site()=>
            #before
            match #entered.run(#made) #awaited {
                ::core::result::Result::Ok(#value) => #value,
                ::core::result::Result::Err(#error) => #refused,
            }
        }
    }

    /// Generates `.await`, in an async function.
    fn awaited(&self) -> Option<TokenStream> {
        self.function.is_async().then(|| quote_spanned!(Span::mixed_site()=> .await))
    }

    /// Generates the return value of a body that did not run to its end.
    fn refused(&self) -> TokenStream {
        let (krate, output, error) = (&self.krate, &self.output, hidden("error"));
        quote_spanned!(output.span()=> <#output as #krate::__private::LockedOutput>::refused(#error))
    }

    /// Generates the return value of a skipped body, with `on_busy = skip`.
    fn skipped(&self) -> TokenStream {
        let (krate, output) = (&self.krate, &self.output);
        quote_spanned!(output.span()=> <#output as #krate::__private::SkippedOutput>::skipped())
    }

    /// Generates the call of the other function, with `on_busy = fallback(path)`.
    fn fallback(&self, path: &Expr) -> TokenStream {
        // The check has refused an argument without a name.
        let arguments = self.function.handed_on().unwrap_or_default();
        let awaited = self.function.is_async().then(|| quote_spanned!(ours_at(path)=> .await));
        quote_spanned!(path.span()=> #path(#(#arguments),*) #awaited)
    }
}

/// Generates the `&` before an expression, unless it is a reference, since a reference to a reference is a warning of
/// clippy.
fn borrow(given: &Expr) -> Option<TokenStream> {
    (!matches!(given, Expr::Reference(_))).then(|| quote_spanned!(given.span()=> &))
}

/// Replaces `impl Trait`, which no body can write, with `_`.
struct Opaque;

impl VisitMut for Opaque {
    fn visit_type_mut(&mut self, part: &mut Type) {
        if let Type::ImplTrait(opaque) = part {
            *part = syn::parse_quote_spanned!(opaque.span()=> _);
        }
        visit_type_mut(self, part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(options: &str, item: &str) -> String {
        locked(options.parse().unwrap(), item.parse().unwrap()).to_string()
    }

    #[test]
    fn signature_attributes_and_visibility_are_preserved() {
        let written = "/// Doc.\n#[inline] pub(crate) async fn f<'a, T: Clone>(mut x: &'a T) -> Result<T, E> where T: Send";
        let spaceless = |text: &str| text.replace(' ', "");
        let kept = spaceless(&written.parse::<TokenStream>().unwrap().to_string());
        let code = expanded("name = \"a\"", &format!("{written} {{ body(x) }}"));
        assert_eq!(code.split_once(" { ").map(|(kept, _)| spaceless(kept)), Some(kept));
    }

    #[test]
    fn an_error_leaves_the_function_unchanged() {
        let code = expanded("nmae = \"a\"", "async fn f() -> Result<(), E> { Ok(()) }");
        assert!(
            code.contains("compile_error")
                && code.ends_with("async fn f () -> Result < () , E > { Ok (()) }")
        );
    }

    #[test]
    fn opaque_types_are_left_to_inference() {
        let code = expanded("name = \"a\"", "async fn f() -> Result<Vec<impl Display>, E> { body() }");
        assert!(code.contains("None :: < Result < Vec < _ > , E > >"), "{code}");
    }

    #[test]
    fn every_library_path_starts_with_the_given_crate_path() {
        let options = "name = \"a\", wait = \"1s\", on_busy = skip, on_finish = detach, on_lost = finish";
        // A function that blocks is an error without its feature.
        let blocking = cfg!(feature = "blocking").then_some("fn f() -> Result<(), E> { body() }");
        for item in std::iter::once("async fn f() -> Result<(), E> { body() }").chain(blocking) {
            let usual = expanded(options, item);
            assert!(usual.matches(":: leasehold :: ").count() >= 5, "{usual}");
            let renamed = expanded(&format!("{options}, crate = own::locks"), item);
            assert!(!renamed.contains("leasehold"), "{renamed}");
            assert_eq!(renamed.replace("own :: locks", ":: leasehold"), usual);
        }
    }

    #[test]
    fn only_the_given_options_are_generated() {
        let plain = expanded("name = \"a\", client = c", "async fn f() -> Result<(), E> { body() }");
        for method in [
            "lease",
            "watchdog",
            "max_hold",
            "min_hold",
            "margin",
            "max_renewals",
            "replicas",
            "wait",
            "on_finish",
            "on_lost",
        ] {
            assert!(!plain.contains(&format!(". {method} (")), "{method}: {plain}");
        }
        assert!(!plain.contains("Busy") && !plain.contains("installed"), "{plain}");
    }
}
