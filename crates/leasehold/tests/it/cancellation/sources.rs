//! The library's own sources, searched for methods that wait. The test fails for a method without a case.
//!
//! Invariant: the search uses the compiler's grammar, not the look of a line. It rejects code that a macro could hide.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{ImplItem, Item, ReturnType, Signature, TraitItem, Type, Visibility};

use crate::cancellation::counters::COUNTERS;
use crate::cancellation::sets::SETS;
use crate::cancellation::waiting::ALL;

/// Waiting methods without a case, each with the reason.
const LEFT_OUT: &[(&str, &str)] = &[
    ("Sealed::acquire", "no other crate can call it, and `Section::enter` is little more"),
    ("Holding::lost", "no other crate can call it, and it is the `lost` of the guard"),
    ("Holding::release", "no other crate can call it, and it is the `release` of the guard"),
    ("Server::advance", "it is a test's own time, and acquires nothing"),
    ("Server::settle", "it is a test's own time, and acquires nothing"),
    ("Server::sleep", "it is a test's own time, and acquires nothing"),
    ("ClientBuilder::connect_to", "it is `ClientBuilder::connect` with a URL that was read before"),
    ("Config::connect", "it is `ClientBuilder::connect`"),
    ("Config::connect_quorum", "it is `ClientBuilder::connect`, of each server"),
    ("Election::lead", "it goes on until it is stopped; a test of elections drops it at every poll"),
    ("Term::lost", "it is `Guard::lost`"),
    ("Term::asked", "it waits for others, and acquires nothing"),
    ("Observer::changed", "it waits for others, and acquires nothing"),
    ("Stopper::stop", "it waits for the end of `Election::lead`, and acquires nothing"),
    ("Server::client", "it is `ClientBuilder::connect_over`"),
    ("Server::client_with", "it is `ClientBuilder::connect_over`"),
];

/// The public waiting methods found so far.
#[derive(Default)]
struct Found {
    /// Types that implement `Future`.
    futures: BTreeSet<String>,
    /// Each method with its file.
    methods: BTreeMap<String, PathBuf>,
}

impl Found {
    fn read(files: &[PathBuf]) -> Self {
        let mut found = Self::default();
        let parsed: Vec<(&PathBuf, syn::File)> = files.iter().map(|path| (path, parse(path))).collect();
        for (_, file) in &parsed {
            found.learn_futures(&file.items);
        }
        for (path, file) in &parsed {
            let module = path.file_stem().unwrap().to_str().unwrap();
            found.items(path, module, &file.items);
        }
        found
    }

    fn learn_futures(&mut self, items: &[Item]) {
        for item in items {
            if let Item::Impl(block) = item
                && let Some((implemented, _)) = &block.trait_
                && implemented.segments.last().is_some_and(|last| last.ident == "Future")
            {
                self.futures.extend(name_of(&block.self_ty));
            }
        }
    }

    fn items(&mut self, path: &Path, module: &str, items: &[Item]) {
        for item in items {
            match item {
                Item::Fn(function) if is_public(&function.vis) => {
                    self.method(path, module, &function.sig);
                }
                Item::Impl(block) if block.trait_.is_none() => {
                    let owner = name_of(&block.self_ty).unwrap_or_else(|| module.to_owned());
                    for member in &block.items {
                        match member {
                            ImplItem::Fn(method) if is_public(&method.vis) => {
                                self.method(path, &owner, &method.sig);
                            }
                            ImplItem::Macro(call) => hides_nothing(path, &call.mac),
                            _ => {}
                        }
                    }
                }
                Item::Trait(declared) if is_public(&declared.vis) => {
                    for member in &declared.items {
                        if let TraitItem::Fn(method) = member {
                            self.method(path, &declared.ident.to_string(), &method.sig);
                        }
                    }
                }
                Item::Mod(inner) if !is_test(&inner.attrs) => {
                    if let Some((_, items)) = &inner.content {
                        self.items(path, &inner.ident.to_string(), items);
                    }
                }
                Item::Macro(call) => hides_nothing(path, &call.mac),
                _ => {}
            }
        }
    }

    fn method(&mut self, path: &Path, owner: &str, signature: &Signature) {
        let returns_future = match &signature.output {
            ReturnType::Default => false,
            ReturnType::Type(_, returned) => self.is_future(returned),
        };
        if signature.asyncness.is_some() || returns_future {
            self.methods.insert(format!("{owner}::{}", signature.ident), path.to_owned());
        }
    }

    fn is_future(&self, returned: &Type) -> bool {
        let mut names = Names::default();
        names.visit_type(returned);
        let is_one = |name: &String| {
            name.ends_with("Future") || name.ends_with("FutureExt") || self.futures.contains(name)
        };
        names.0.iter().any(is_one)
    }
}

/// Every name in a type.
#[derive(Default)]
struct Names(Vec<String>);

impl<'ast> Visit<'ast> for Names {
    fn visit_ident(&mut self, name: &'ast syn::Ident) {
        self.0.push(name.to_string());
        visit::visit_ident(self, name);
    }
}

fn name_of(of: &Type) -> Option<String> {
    match of {
        Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
        _ => None,
    }
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string().contains("test"))
    })
}

fn parse(path: &Path) -> syn::File {
    let text = fs::read_to_string(path).unwrap();
    syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Checks that a macro writes no function that waits, which this test would not see.
fn hides_nothing(path: &Path, call: &syn::Macro) {
    let tokens = call.tokens.to_string();
    let has = |wanted: &[&str]| tokens.split_whitespace().any(|word| wanted.contains(&word));
    let hides = has(&["fn"]) && has(&["async", "Future"]);
    assert!(!hides, "{}: a macro hides functions that wait from this test", path.display());
}

/// All source files of the library.
fn files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                files.push(path);
            }
        }
    }
    files.sort_unstable();
    files
}

#[test]
fn every_public_method_that_waits_is_dropped_at_every_poll() {
    let found = Found::read(&files());
    let counters = COUNTERS.iter().map(|case| case.method);
    let cases: BTreeSet<&str> = ALL
        .iter()
        .map(|waiting| waiting.method())
        .chain(SETS.iter().map(|case| case.method))
        .chain(counters)
        .collect();
    for (method, reason) in LEFT_OUT {
        println!("left out: {method}, since {reason}");
    }
    let known = |name: &str| cases.contains(name) || LEFT_OUT.iter().any(|(left_out, _)| *left_out == name);
    let missing: Vec<_> = found.methods.iter().filter(|(name, _)| !known(name)).collect();
    assert!(missing.is_empty(), "these wait, and no case in `waiting.rs` drops them: {missing:?}");
    let gone: Vec<_> = cases.iter().filter(|name| !found.methods.contains_key(**name)).collect();
    assert!(gone.is_empty(), "there are cases for methods that do not exist: {gone:?}");
    println!("{} public methods wait: {:?}", found.methods.len(), found.methods.keys());
}

#[test]
fn every_form_of_a_waiting_method_is_found() {
    let source = "
        pub struct Later;
        impl std::future::Future for Later { type Output = (); }
        pub struct Lock;
        impl Lock {
            pub async fn lock(&self) {}
            pub fn eager(&self) -> impl Future<Output = ()> + use<'_> { async {} }
            pub fn boxed(&self) -> Pin<Box<dyn std::future::Future<Output = ()> + Send + '_>> { todo() }
            pub fn named(&self) -> Later { Later }
            pub fn at_once(&self) -> Option<Guard> { None }
            pub(crate) async fn inner(&self) {}
            async fn own(&self) {}
        }
        pub trait Waits { async fn wait(&self); fn now(&self); }
        pub async fn scope() {}
        mod nested { impl super::Lock { pub async fn nested(&self) {} } }
        #[cfg(test)] mod tests { pub async fn test() {} }
    ";
    let items = syn::parse_file(source).unwrap().items;
    let mut found = Found::default();
    found.learn_futures(&items);
    found.items(Path::new("owner.rs"), "owner", &items);
    let names: Vec<&str> = found.methods.keys().map(String::as_str).collect();
    let expected = ["Lock::boxed", "Lock::eager", "Lock::lock", "Lock::named", "Lock::nested"];
    assert_eq!(names, [&expected[..], &["Waits::wait", "owner::scope"]].concat());
}
