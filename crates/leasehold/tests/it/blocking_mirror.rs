//! Comparison of the two APIs. Every public method of every type that waits has a blocking counterpart, and the reverse.
//!
//! Invariant: the test parses both APIs from the library's own sources. The tables below list the permitted differences.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, Block, File, FnArg, ImplItem, ImplItemFn, Item, Macro, Pat, Signature, Type, UseTree,
    Visibility, WhereClause,
};

/// Items that only the async API has.
const LEFT_OUT: &[(&str, &str)] = &[
    ("scope", "a thread is its own scope"),
    ("independent", "another thread is independent code"),
    ("ambient", "a thread always has an owner: `blocking::owner`"),
    ("Config::builder", "a configuration is the same value for both faces"),
    ("Config::from_file", "a configuration is the same value for both faces"),
    ("Config::from_env", "a configuration is the same value for both faces"),
    ("Config::is_quorum", "a configuration is the same value for both faces"),
    ("Config::is_in_process", "a configuration is the same value for both faces"),
    ("Config::connect", "it is `Client::from_config`"),
    ("Config::connect_quorum", "it is `Redlock::from_config`"),
];

/// Items that only the blocking API has.
const ADDED: &[(&str, &str)] = &[
    ("Client::from_config", "`Config::connect`, of a value that both faces have"),
    ("Redlock::from_config", "`Config::connect_quorum`, of a value that both faces have"),
    ("Client::as_async", "the way to the other face"),
    ("owner", "the calling thread's, which only this face has"),
];

/// Items with other arguments.
const DIFFERENT: &[(&str, &str)] = &[("SectionGuard::run", "its body is a closure instead of a future")];

/// The public methods of one API, by type and generic arguments, and its public functions.
#[derive(Default)]
struct Face {
    methods: BTreeMap<String, Method>,
    /// The names that the files import from the crate's root.
    imports: BTreeSet<String>,
}

struct Method {
    /// The method with its type, without the type's generic arguments.
    name: String,
    of: Option<String>,
    waits: bool,
    signature: Signature,
    attributes: Vec<Attribute>,
    /// The string literals in its body.
    says: Vec<String>,
}

impl Face {
    fn read(files: &[File]) -> Self {
        let mut face = Self::default();
        for file in files {
            face.items(&file.items);
        }
        face
    }

    fn items(&mut self, items: &[Item]) {
        for item in items {
            match item {
                Item::Fn(function) if is_public(&function.vis) => {
                    self.method(None, &function.sig, &function.attrs, &function.block);
                }
                Item::Impl(block) if block.trait_.is_none() => {
                    for member in &block.items {
                        match member {
                            ImplItem::Fn(method) if is_public(&method.vis) => {
                                self.method(Some(&block.self_ty), &method.sig, &method.attrs, &method.block);
                            }
                            ImplItem::Macro(_) => panic!("a macro in an impl hides methods"),
                            _ => {}
                        }
                    }
                }
                Item::Use(used) => self.import(&used.tree, false),
                Item::Macro(call) if setters_of(&call.mac).is_some() => self.setters(&call.mac),
                Item::Macro(call) if call.ident.is_none() => {
                    let hides = call.mac.tokens.to_string().split_whitespace().any(|word| word == "fn");
                    assert!(!hides, "a macro hides functions from this test");
                }
                _ => {}
            }
        }
    }

    fn method(&mut self, of: Option<&Type>, signature: &Signature, attributes: &[Attribute], body: &Block) {
        let mut texts = Texts::default();
        texts.visit_block(body);
        let (of, arguments) = of.map(named).unzip();
        let name = match &of {
            Some(of) => format!("{of}::{}", signature.ident),
            None => signature.ident.to_string(),
        };
        let method = Method {
            name: name.clone(),
            of,
            waits: signature.asyncness.is_some(),
            signature: signature.clone(),
            attributes: attributes.to_vec(),
            says: texts.0,
        };
        // A method on one kind of lock differs from the method on all kinds.
        let key = format!("{name}{}", arguments.unwrap_or_default());
        assert!(self.methods.insert(key, method).is_none(), "two methods are called {name}");
    }

    /// Records the setters that a macro writes for a handle.
    fn setters(&mut self, call: &Macro) {
        let of: Type = call.parse_body_with(handle).expect("a macro of setters names its handle");
        for name in setters_of(call).unwrap_or_default() {
            let setter = format!("#[must_use] pub fn {name}(self, term: Term) -> Self {{}}");
            let setter: ImplItemFn = syn::parse_str(&setter).unwrap();
            self.method(Some(&of), &setter.sig, &setter.attrs, &setter.block);
        }
    }

    fn import(&mut self, tree: &UseTree, of_crate: bool) {
        match tree {
            UseTree::Path(path) => self.import(&path.tree, of_crate || path.ident == "crate"),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(tree, of_crate)),
            UseTree::Name(name) if of_crate => _ = self.imports.insert(name.ident.to_string()),
            UseTree::Rename(name) if of_crate => _ = self.imports.insert(name.ident.to_string()),
            _ => {}
        }
    }

    /// The types that have a method that waits.
    fn waiting_types(&self) -> BTreeSet<String> {
        self.methods.values().filter(|method| method.waits).filter_map(|method| method.of.clone()).collect()
    }
}

/// The setters that a macro of `terms.rs` writes.
fn setters_of(call: &Macro) -> Option<&'static [&'static str]> {
    const SETTERS: &[&str] = &["lease", "watchdog", "max_hold", "min_hold", "max_renewals"];
    if call.path.is_ident("hold_options") {
        Some(SETTERS)
    } else {
        call.path.is_ident("lease_options").then_some(&SETTERS[..2])
    }
}

/// Reads the handle of a macro of setters, and skips its generic parameters.
fn handle(arguments: ParseStream<'_>) -> syn::Result<Type> {
    let handle = arguments.parse()?;
    arguments.parse::<Option<WhereClause>>()?;
    Ok(handle)
}

/// The name of a type, and its generic arguments.
fn named(of: &Type) -> (String, String) {
    let Type::Path(path) = of else { panic!("an inherent impl is a type's") };
    let last = path.path.segments.last().unwrap();
    let mut arguments = Names::default();
    arguments.visit_path_arguments(&last.arguments);
    (last.ident.to_string(), arguments.0.iter().map(|name| format!(" of {name}")).collect())
}

/// Every name in a syntax node.
#[derive(Default)]
struct Names(Vec<String>);

impl<'ast> Visit<'ast> for Names {
    fn visit_ident(&mut self, name: &'ast syn::Ident) {
        self.0.push(name.to_string());
    }
}

/// Every string literal in a body.
#[derive(Default)]
struct Texts(Vec<String>);

impl<'ast> Visit<'ast> for Texts {
    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        self.0.push(text.value());
        visit::visit_lit_str(self, text);
    }
}

/// Removes the permitted differences between the APIs, so that the rest can be compared.
struct Alike<'a> {
    /// The types that exist in both APIs, set only for the blocking API.
    twins: Option<&'a BTreeSet<String>>,
}

impl VisitMut for Alike<'_> {
    fn visit_signature_mut(&mut self, signature: &mut Signature) {
        (signature.asyncness, signature.constness) = (None, None);
        without_last_comma(&mut signature.inputs);
        without_last_comma(&mut signature.generics.params);
        if let Some(clause) = &mut signature.generics.where_clause {
            without_last_comma(&mut clause.predicates);
        }
        for argument in &mut signature.inputs {
            match argument {
                FnArg::Receiver(receiver) => receiver.mutability = None,
                FnArg::Typed(typed) => {
                    if let Pat::Ident(name) = &mut *typed.pat {
                        name.mutability = None;
                    }
                }
            }
        }
        visit_mut::visit_signature_mut(self, signature);
    }

    fn visit_path_mut(&mut self, path: &mut syn::Path) {
        visit_mut::visit_path_mut(self, path);
        let is_of_crate = path.segments.len() > 1 && path.segments[0].ident == "crate";
        let mut last = path.segments.last().unwrap().clone();
        let name = last.ident.to_string();
        let alike = match &*name {
            "AsyncFnOnce" => "FnOnce".to_owned(),
            "BlockingGuard" => "Guard".to_owned(),
            _ if is_of_crate && self.twins.is_some_and(|twins| twins.contains(&name)) => {
                format!("Async{name}")
            }
            _ => name,
        };
        last.ident = syn::Ident::new(&alike, last.ident.span());
        *path = last.into();
    }
}

fn without_last_comma<T, P: Default>(list: &mut Punctuated<T, P>) {
    if list.trailing_punct() {
        list.pop_punct();
    }
}

/// Every undocumented difference between the blocking API and the async API.
fn findings(waiting: &Face, blocking: &Face, exceptions: [&[(&str, &str)]; 3]) -> Vec<String> {
    let [left_out, added, different] = exceptions;
    let types = waiting.waiting_types();
    let mut found = Vec::new();
    let mut excused = BTreeSet::new();
    let mut excuse = |list: &[(&str, &str)], name: &str| {
        let known = list.iter().any(|(known, _)| *known == name);
        excused.extend(known.then(|| name.to_owned()));
        known
    };
    for (key, method) in &waiting.methods {
        let is_mirrored = method.of.as_ref().is_none_or(|of| types.contains(of));
        match blocking.methods.get(key) {
            _ if !is_mirrored => {}
            None if excuse(left_out, &method.name) => {}
            None => found.push(format!("{key}: has no blocking twin")),
            Some(twin) => {
                let mut signatures = (method.signature.clone(), twin.signature.clone());
                Alike { twins: None }.visit_signature_mut(&mut signatures.0);
                Alike { twins: Some(&types) }.visit_signature_mut(&mut signatures.1);
                if signatures.0 != signatures.1 && !excuse(different, &method.name) {
                    found.push(format!("{key}: its twin takes or returns something else"));
                }
                found.extend(manners(method, twin).map(|what| format!("{key}: {what}")));
            }
        }
    }
    for (key, twin) in &blocking.methods {
        if !waiting.methods.contains_key(key) && !excuse(added, &twin.name) {
            found.push(format!("{key}: is the twin of nothing"));
        }
    }
    let borrowed = blocking.imports.intersection(&types);
    found.extend(borrowed.map(|name| format!("{name}: the async one is imported in the blocking face")));
    let all = [left_out, added, different].concat().into_iter();
    let unused = all.filter(|(name, _)| !excused.contains(*name));
    found.extend(unused.map(|(name, _)| format!("{name}: is no exception any more")));
    found
}

/// The rules that a blocking counterpart breaks.
fn manners(method: &Method, twin: &Method) -> impl Iterator<Item = &'static str> {
    let has = |method: &Method, name: &str| {
        method.attributes.iter().any(|attribute| attribute.path().is_ident(name))
    };
    let panics = has_section(&twin.attributes, "# Panics");
    let named = twin.says.contains(&method.name);
    let rules = [
        (twin.waits, "its twin is async"),
        (method.waits && !has(twin, "track_caller"), "its twin's panic does not say who called it"),
        (method.waits && !panics, "its twin does not document its panic"),
        (method.waits && !named, "its twin's panic does not say what to await instead"),
        (!method.waits && has(method, "must_use") != has(twin, "must_use"), "`must_use` differs"),
    ];
    rules.into_iter().filter_map(|(broken, rule)| broken.then_some(rule))
}

fn has_section(attributes: &[Attribute], title: &str) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("doc")).any(|attribute| {
        let mut texts = Texts::default();
        texts.visit_attribute(attribute);
        texts.0.iter().any(|line| line.trim() == title)
    })
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// The source files of the blocking API, or all others. `testing` has no blocking counterpart, because a test that moves
/// the virtual clock is async.
fn files(of_blocking: bool) -> Vec<File> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut files, mut folders) = (Vec::<PathBuf>::new(), vec![source.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let inside = path.strip_prefix(&source).unwrap().with_extension("");
            let is_blocking = inside.starts_with("blocking");
            if inside.starts_with("testing") || inside.starts_with("interleavings") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") && is_blocking == of_blocking {
                files.push(path);
            }
        }
    }
    let parse = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    files.iter().map(parse).collect()
}

#[test]
fn every_method_of_every_type_that_waits_has_a_blocking_twin() {
    let (waiting, blocking) = (Face::read(&files(false)), Face::read(&files(true)));
    let found = findings(&waiting, &blocking, [LEFT_OUT, ADDED, DIFFERENT]);
    assert!(found.is_empty(), "{found:#?}");
    for (name, reason) in [LEFT_OUT, ADDED, DIFFERENT].concat() {
        println!("{name}: an exception, since {reason}");
    }
    let twins: Vec<&String> =
        blocking.methods.keys().filter(|key| waiting.methods.contains_key(*key)).collect();
    assert!(twins.len() > 100, "hardly anything was compared: {twins:?}");
    println!("{} methods have twins, of {:?}", twins.len(), waiting.waiting_types());
}

/// Compares names only, because the text of a call does not show its type.
#[test]
fn every_blocking_method_is_called_by_a_test() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/blocking");
    let tests: Vec<String> =
        fs::read_dir(folder).unwrap().map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    let is_called = |method: &&Method| {
        let calls = [".", "::", " "].map(|before| format!("{before}{}(", method.signature.ident));
        calls.iter().any(|call| tests.iter().any(|test| test.contains(call)))
    };
    let blocking = Face::read(&files(true));
    let uncalled: Vec<&String> =
        blocking.methods.values().filter(|one| !is_called(one)).map(|one| &one.name).collect();
    assert!(uncalled.is_empty(), "no test in `blocking` calls {uncalled:?}");
}

/// The findings for two sources.
fn found(waiting: &str, blocking: &str) -> Vec<String> {
    let [waiting, blocking] = [waiting, blocking].map(|text| Face::read(&[syn::parse_file(text).unwrap()]));
    findings(&waiting, &blocking, [&[], &[], &[]])
}

const ASYNC: &str = "
    impl<K: Kind> Lock<K> {
        pub async fn lock(&self, wait: Duration) -> Result<Option<K::Guard>, AcquireError> { self.ask() }
        #[must_use]
        pub const fn owned_by(mut self, owner: &Owner) -> Self { self }
        pub(crate) async fn ask(&self) {}
    }
    impl Lock<Fenced> {
        pub async fn run<T>(&self, body: impl AsyncFnOnce(&Guard) -> T, other: &Lock) -> Result<T, RunError> {}
    }
    impl Reply { pub fn does_not_wait(&self) {} }
    hold_options!(Lock<K> where K: Kind);
";

const BLOCKING: &str = r##"
    impl<K: Kind> Lock<K> {
        #[doc = "# Panics"]
        #[track_caller]
        pub fn lock(
            &self,
            wait: std::time::Duration,
        ) -> Result<Option<K::BlockingGuard>, AcquireError> { park("Lock::lock") }
        #[must_use]
        pub fn owned_by(self, owner: &Owner) -> Self { self }
        pub(super) fn own(&self) {}
    }
    impl Lock<Fenced> {
        #[doc = "# Panics"]
        #[track_caller]
        pub fn run<T>(&self, body: impl FnOnce(&Guard) -> T, other: &Lock) -> Result<T, RunError> { park("Lock::run") }
    }
    hold_options!(Lock<K> where K: Kind);
"##;

#[test]
fn faces_that_are_twins_are_found_to_be() {
    assert_eq!(found(ASYNC, BLOCKING), [""; 0]);
}

#[test]
fn whatever_a_twin_lacks_is_found() {
    let something_else = "its twin takes or returns something else";
    for (text, instead, finding) in [
        ("pub fn owned_by", "fn owned_by", "Lock::owned_by of K: has no blocking twin"),
        ("hold_options", "lease_options", "Lock::max_renewals of K: has no blocking twin"),
        ("pub fn lock", "pub fn look", "Lock::lock of K: has no blocking twin"),
        ("wait: std", "span: std", something_else),
        ("::Duration,", "::Instant,", something_else),
        ("AcquireError", "RunError", something_else),
        ("&self,\n", "self,\n", something_else),
        ("Option<K::BlockingGuard>", "K::BlockingGuard", something_else),
        ("FnOnce(&Guard)", "FnMut(&Guard)", something_else),
        ("other: &Lock", "other: &crate::Lock", something_else),
        ("pub fn run", "pub async fn run", "its twin is async"),
        ("#[track_caller]", "", "does not say who called it"),
        ("# Panics", "# Errors", "does not document its panic"),
        ("park(\"Lock::lock\")", "park(\"Lock::try_lock\")", "does not say what to await instead"),
        ("#[must_use]", "", "`must_use` differs"),
        ("impl<K: Kind>", "use crate::lock::Lock; impl<K: Kind>", "the async one is imported"),
    ] {
        assert!(BLOCKING.contains(text), "{text}");
        let found = found(ASYNC, &BLOCKING.replacen(text, instead, 1));
        assert!(found.iter().any(|one| one.contains(finding)), "{text}: {found:?}");
    }
}

#[test]
fn what_only_the_blocking_face_has_is_found() {
    let more = format!("{BLOCKING} impl Lock<Fenced> {{ pub fn more(&self) {{}} }} pub fn alone() {{}}");
    assert_eq!(
        found(ASYNC, &more),
        ["Lock::more of Fenced: is the twin of nothing", "alone: is the twin of nothing"]
    );
}

#[test]
fn an_exception_that_nothing_needs_is_found() {
    let [waiting, blocking] = [ASYNC, BLOCKING].map(|text| Face::read(&[syn::parse_file(text).unwrap()]));
    let found = findings(&waiting, &blocking, [&[("Lock::lock", "it was one")], &[], &[]]);
    assert_eq!(found, ["Lock::lock: is no exception any more"]);
}
