//! The rules for the inherent impls of one type that are in several files. Imports cannot see them, because a method needs
//! none.
//!
//! Invariant: an impl belongs to the type of its name. A name that several types of a crate have is resolved by the
//! file's own definition or its imports, else it is left out.
//!
//! # How it works
//! An impl stands in the folder of its type, or below the file that defines the type. Only a type like the last one has
//! impls in several folders. Then each folder is a node, and a call of `self.method(` or `Self::method(` inside an impl is
//! an edge to the folder that defines the method. Folders in a circle are one part that only looks like several.

use std::collections::{BTreeMap, BTreeSet};

use super::circles::reached_from;
use super::source::Source;
use super::tokens::{self, Kind, Token, begin_with, group_length};

/// The impls outside of the folder of their type that were there before the rule, each with a file and its type. `CallArgs`
/// of a recipe are made from a `Subject`, which is above the recipes. The others are to be moved.
const STRAYS: [(&str, &str); 10] = [
    ("crates/leasehold/src/any_error.rs", "ConfigConnectError"),
    ("crates/leasehold/src/client/visibility.rs", "Identity"),
    ("crates/leasehold/src/config.rs", "ConfigBuilder"),
    ("crates/leasehold/src/fenced_writes.rs", "FencedGuard"),
    ("crates/leasehold/src/multi.rs", "Lock"),
    ("crates/leasehold/src/redlock/node.rs", "Lock"),
    ("crates/leasehold-cli/src/doctor/checks/fixture.rs", "Facts"),
    ("crates/leasehold-cli/src/doctor/checks/one_server.rs", "Behind"),
    ("crates/leasehold-proto/src/subject.rs", "CallArgs"),
    ("crates/leasehold-sim/src/world/server.rs", "Natives"),
];
/// The types whose folders called each other before the rule.
const CIRCLES: [(&str, &str); 2] = [("crates/leasehold", "Shared"), ("crates/leasehold-cli", "Target")];

/// The files of one crate, by their paths below `src`.
type Crate<'a> = BTreeMap<&'a str, &'a [Token<'a>]>;

/// An inherent impl.
struct Impl<'a> {
    file: &'a str,
    line: usize,
    of: &'a str,
    /// The file that defines the type.
    defined_in: &'a str,
    methods: BTreeSet<&'a str>,
    /// The methods of its own type that it calls.
    calls: BTreeSet<&'a str>,
}

/// Reports the inherent impls outside of the folder of their type, and the types whose folders call each other.
pub(super) fn impls(sources: &[Source]) -> Vec<String> {
    let mut crates: BTreeMap<&str, Crate> = BTreeMap::new();
    for source in sources {
        let path = source.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"));
        if let Some((name, file)) = path {
            crates.entry(name).or_default().insert(file, source.code());
        }
    }
    let broken: Vec<Broken> =
        crates.into_iter().flat_map(|(name, files)| judge(name, &read(&files))).collect();
    unknown(broken, &[&STRAYS[..], &CIRCLES].concat())
}

/// A broken rule: the file or crate and the type by which a list names it, and the finding.
type Broken<'a> = ((String, &'a str), String);

/// Returns the findings that no list names, and one for each entry without a finding.
fn unknown(broken: Vec<Broken>, known: &[(&str, &str)]) -> Vec<String> {
    let is_known = |(at, of): &(String, &str)| known.contains(&(at.as_str(), of));
    let over = known
        .iter()
        .filter(|(at, of)| !broken.iter().any(|((file, name), _)| (file.as_str(), *name) == (*at, *of)));
    let over: Vec<String> = over
        .map(|(at, of)| format!("{at}: {of} breaks no rule of impls any more: remove it from tidy/impls.rs"))
        .collect();
    broken.into_iter().filter(|(key, _)| !is_known(key)).map(|(_, finding)| finding).chain(over).collect()
}

fn judge<'a>(name: &str, impls: &[Impl<'a>]) -> Vec<Broken<'a>> {
    let strays = impls.iter().filter(|found| !found.is_at_home()).map(|found| {
        let Impl { file, line, of, defined_in, .. } = found;
        let file = format!("crates/{name}/src/{file}");
        let finding = format!("{file}:{line}: an impl of {of} is outside of the folder of {defined_in}");
        ((file, *of), finding)
    });
    let circles = circles(impls).into_iter().map(|(of, folders)| {
        let folders: Vec<String> = folders.iter().map(|folder| format!("src/{folder}")).collect();
        let at = format!("crates/{name}");
        let finding = format!("{at}: folders in a circle of calls within {of}: {}", folders.join(", "));
        ((at, of), finding)
    });
    strays.chain(circles).collect()
}

/// Returns the types whose impls call each other across folders in a circle, with the folders in circles.
fn circles<'a>(impls: &[Impl<'a>]) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut types: BTreeMap<(&str, &str), Vec<&Impl>> = BTreeMap::new();
    for found in impls {
        types.entry((found.of, found.defined_in)).or_default().push(found);
    }
    let mut circles = Vec::new();
    for ((of, _), impls) in types {
        let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for from in &impls {
            let called = impls.iter().filter(|to| !from.calls.is_disjoint(&to.methods));
            let called = called.map(|to| folder(to.file)).filter(|to| *to != folder(from.file));
            edges.entry(folder(from.file)).or_default().extend(called);
        }
        let in_circle: Vec<&str> =
            edges.keys().filter(|node| reached_from(&edges, node).contains(*node)).copied().collect();
        if !in_circle.is_empty() {
            circles.push((of, in_circle));
        }
    }
    circles
}

impl Impl<'_> {
    /// Returns true in the folder of the type, and below the file that defines it.
    fn is_at_home(&self) -> bool {
        let module = self.defined_in.trim_end_matches(".rs");
        let is_root = ["lib", "main"].contains(&module);
        let is_below = self.file.strip_prefix(module).is_some_and(|rest| rest.starts_with('/'));
        is_root || is_below || folder(self.file) == folder(self.defined_in)
    }
}

/// Returns the folder of a file, which is empty for `src` itself.
fn folder(file: &str) -> &str {
    file.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Reads the inherent impls of a crate whose types it defines.
fn read<'a>(files: &Crate<'a>) -> Vec<Impl<'a>> {
    let mut definitions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (file, code) in files {
        for name in types(code) {
            definitions.entry(name).or_default().push(file);
        }
    }
    let mut found = Vec::new();
    for (file, code) in files {
        for (line, of, body) in inherent(code) {
            let Some(defined_in) = definitions.get(of).and_then(|definers| definer(file, code, of, definers))
            else {
                continue;
            };
            found.push(Impl { file, line, of, defined_in, methods: methods(body), calls: calls(body) });
        }
    }
    found
}

/// Returns the file that defines the type that a file means by a name. A module may re-export a type of a file below it.
fn definer<'a>(file: &str, code: &[Token], of: &str, definers: &[&'a str]) -> Option<&'a str> {
    if definers.len() == 1 || definers.contains(&file) {
        return definers.iter().find(|definer| definers.len() == 1 || **definer == file).copied();
    }
    let imports = tokens::paths(code).into_iter().filter(|path| path.parts.last() == Some(&of));
    let modules: BTreeSet<String> = imports.filter_map(|path| named(file, &path.parts)).collect();
    let is_named = |definer: &&&str| {
        let definer = definer.trim_end_matches(".rs");
        modules.iter().any(|module| {
            definer.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    };
    let mut named = definers.iter().filter(is_named);
    named.next().filter(|_| named.next().is_none()).copied()
}

/// Returns the module of an import from `crate` or `super`, as the path of a file.
fn named(file: &str, path: &[&str]) -> Option<String> {
    let (module, supers) =
        (file.trim_end_matches(".rs"), path.iter().filter(|part| **part == "super").count());
    let parts = &path[..path.len() - 1];
    match *parts.first()? {
        "crate" => Some(parts[1..].join("/")),
        "super" => {
            let above: Vec<&str> = module.split('/').collect();
            let above = &above[..above.len().checked_sub(supers)?];
            Some([above, &parts[supers..]].concat().join("/"))
        }
        _ => None,
    }
}

/// Returns the names of the types that a file defines.
fn types<'a>(code: &[Token<'a>]) -> Vec<&'a str> {
    let defines =
        |pair: &&[Token]| ["struct", "enum", "union"].contains(&pair[0].text) && pair[1].kind == Kind::Word;
    code.windows(2).filter(defines).map(|pair| pair[1].text).collect()
}

/// Returns the inherent impls of a file: their line, their type, and the tokens of their body.
fn inherent<'t, 'a>(code: &'t [Token<'a>]) -> Vec<(usize, &'a str, &'t [Token<'a>])> {
    let mut found = Vec::new();
    for at in 0..code.len() {
        // Elsewhere `impl` begins a type, as in `x: impl Fn()`.
        let is_item = at == 0 || ["}", "{", ";", "]"].contains(&code[at - 1].text);
        if code[at].text != "impl" || !is_item {
            continue;
        }
        let head = &code[at + 1..];
        let Some(body) = head.iter().position(|token| token.text == "{") else { continue };
        let (head, rest) = head.split_at(body);
        if head.iter().any(|token| token.text == "for") {
            continue;
        }
        let name =
            head[generics(head)..].iter().take_while(|token| token.kind == Kind::Word || token.text == "::");
        let Some(name) = name.filter(|token| token.kind == Kind::Word).last() else { continue };
        found.push((code[at].line, name.text, &rest[..group_length(rest)]));
    }
    found
}

/// Returns the number of tokens of the generics that an impl begins with.
fn generics(head: &[Token]) -> usize {
    let mut depth = 0_usize;
    for (at, token) in head.iter().enumerate() {
        match token.text {
            "<" => depth += 1,
            ">" if at > 0 && head[at - 1].text != "-" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return if at == 0 { 0 } else { at + 1 };
        }
    }
    0
}

fn methods<'a>(body: &[Token<'a>]) -> BTreeSet<&'a str> {
    body.windows(2).filter(|pair| pair[0].text == "fn").map(|pair| pair[1].text).collect()
}

fn calls<'a>(body: &[Token<'a>]) -> BTreeSet<&'a str> {
    let called = (0..body.len()).filter_map(|at| {
        let rest = &body[at..];
        let is_own = begin_with(rest, &["self", "."]) || begin_with(rest, &["Self", "::"]);
        let name = rest.get(2).filter(|_| is_own)?;
        // `Self::method` without a bracket is a value that is called later.
        let is_called =
            rest[0].text == "Self" || rest.get(3).is_some_and(|next| ["(", "::"].contains(&next.text));
        is_called.then_some(name.text)
    });
    called.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let read_all: Vec<(&str, Vec<Token>)> =
            files.iter().map(|(file, code)| (*file, tokens::read(code).unwrap())).collect();
        let files: Crate = read_all.iter().map(|(file, code)| (*file, code.as_slice())).collect();
        judge("x", &read(&files)).into_iter().map(|(_, finding)| finding).collect()
    }

    const ENGINE: (&str, &str) = (
        "engine.rs",
        "pub struct Engine; impl Engine { fn step(&self) { self.wait(); } fn carry(&self) {} }",
    );

    #[test]
    fn folders_may_be_called_downwards() {
        let waits =
            ("engine/waits/queue.rs", "impl Engine { fn wait(&self) { self.hold(); self.cx.step(); } }");
        let holds = ("engine/holds/hold.rs", "impl Engine { fn hold(&self) {} }");
        assert_eq!(findings(&[ENGINE, waits, holds]), Vec::<String>::new());
    }

    #[test]
    fn folders_that_call_each_other_within_a_type_are_a_circle() {
        for back in ["self.carry()", "Self::carry(self)", "each(Self::carry)", "self.carry::<u8>()"] {
            let holds = ("engine/holds/hold.rs", format!("impl Engine {{ fn wait(&self) {{ {back}; }} }}"));
            let found = findings(&[ENGINE, (holds.0, &holds.1)]);
            assert_eq!(
                found,
                ["crates/x: folders in a circle of calls within Engine: src/, src/engine/holds"]
            );
        }
        let one_folder = [
            ("a/b.rs", "struct T; impl T { fn f(&self) { self.g() } }"),
            ("a/c.rs", "impl T { fn g(&self) { self.f() } }"),
        ];
        assert_eq!(findings(&one_folder), Vec::<String>::new());
    }

    #[test]
    fn an_impl_stands_in_the_folder_of_its_type_or_below_its_file() {
        let defined = ("holds/hold.rs", "pub struct Hold<'a>(&'a u8);");
        for home in ["holds/renewal.rs", "holds/hold/parts.rs", "holds/hold.rs"] {
            let own = (home, "impl<'a> Hold<'a> { fn f() -> impl Fn() { || () } }");
            let files = if home == defined.0 { vec![own] } else { vec![defined, own] };
            assert_eq!(findings(&files), Vec::<String>::new(), "{home}");
        }
        let found = findings(&[defined, ("waits/queue.rs", "use x;\nimpl<'a> Hold<'a> { fn f() {} }")]);
        let stray =
            "crates/x/src/waits/queue.rs:2: an impl of Hold is outside of the folder of holds/hold.rs";
        assert_eq!(found, [stray]);
        let of_a_trait = ("waits/queue.rs", "impl Clone for Hold { fn clone(&self) -> Self { todo!() } }");
        assert_eq!(findings(&[defined, of_a_trait]), Vec::<String>::new());
    }

    #[test]
    fn a_list_of_what_was_there_before_only_shrinks() {
        let broken = || vec![(("crates/x/src/a.rs".to_owned(), "T"), "stray".to_owned())];
        assert_eq!(unknown(broken(), &[]), ["stray"]);
        assert_eq!(unknown(broken(), &[("crates/x/src/a.rs", "T")]), Vec::<String>::new());
        let found = unknown(broken(), &[("crates/x/src/a.rs", "T"), ("crates/x/src/b.rs", "T")]);
        assert_eq!(
            found,
            ["crates/x/src/b.rs: T breaks no rule of impls any more: remove it from tidy/impls.rs"]
        );
    }

    #[test]
    fn a_name_of_several_types_is_resolved_by_imports() {
        let (one, other) = (("a/one.rs", "struct T;"), ("b/other.rs", "struct T;"));
        let import = ("a/user.rs", "use crate::b::other::T; impl T { fn f() {} }");
        assert_eq!(findings(&[one, other, import]).len(), 1);
        let import = ("a/user.rs", "use crate::b::T; impl T { fn f() {} }");
        assert_eq!(findings(&[one, other, import]).len(), 1);
        let import = ("a/user.rs", "use super::one::T; impl T { fn f() {} }");
        assert_eq!(findings(&[one, other, import]), Vec::<String>::new());
        let import = ("a/user.rs", "use crate::a::one::T; impl T { fn f() {} }");
        assert_eq!(findings(&[one, other, import]), Vec::<String>::new());
    }
}
