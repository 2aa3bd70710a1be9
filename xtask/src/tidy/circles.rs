//! The rule that the modules of a crate form floors, without a circle of imports within a crate.
//!
//! Invariant: a path counts for the module that it names, an item for the module that holds it. Unit tests do not
//! count.
//!
//! # How it works
//! Each file is a node. Its edges are the paths in its code that begin with `crate`, `super`, `self` or the name of one
//! of its child modules. A file that reaches itself along edges is in a circle.

use std::collections::{BTreeMap, BTreeSet};

use super::source::Source;
use super::tokens;

/// A module by its path from the root of its crate, which is empty for the root itself.
type Module<'a> = Vec<&'a str>;

/// A module of a crate, and the paths in its code.
type File<'a> = (Module<'a>, Vec<Vec<&'a str>>);

/// The modules of one crate, and the modules that each of them names.
struct Imports<'a>(BTreeMap<Module<'a>, BTreeSet<Module<'a>>>);

/// Reports each crate that has files in circles.
pub(super) fn circles(sources: &[Source]) -> Vec<String> {
    let mut crates: BTreeMap<&str, Vec<File>> = BTreeMap::new();
    for source in sources {
        let Some((name, file)) =
            source.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
        else {
            continue;
        };
        let paths = tokens::paths(source.code()).into_iter().map(|path| path.parts);
        crates.entry(name).or_default().push((module(file), paths.collect()));
    }
    crates.into_iter().filter_map(|(name, files)| judge(name, &Imports::of(&files))).collect()
}

fn judge(name: &str, imports: &Imports) -> Option<String> {
    let circles: Vec<String> = imports.circles().iter().map(|circle| circle.join(", ")).collect();
    (!circles.is_empty())
        .then(|| format!("crates/{name}: files in circles of imports: {}", circles.join("; ")))
}

impl<'a> Imports<'a> {
    fn of(files: &[File<'a>]) -> Self {
        let known: BTreeSet<&Module> = files.iter().map(|(module, _)| module).collect();
        let named = files.iter().map(|(module, paths)| {
            let targets = paths.iter().filter_map(|path| resolve(module, path, &known));
            (module.clone(), targets.filter(|target| target != module).collect())
        });
        Self(named.collect())
    }

    /// Returns the circles, each as the sorted names of its modules.
    fn circles(&self) -> Vec<Vec<String>> {
        let reached: BTreeMap<&Module, BTreeSet<&Module>> =
            self.0.keys().map(|module| (module, reached_from(&self.0, module))).collect();
        let mut circles = BTreeSet::new();
        for (module, targets) in &reached {
            let circle: Vec<String> = targets
                .iter()
                .filter(|target| reached[**target].contains(*module))
                .map(|target| if target.is_empty() { "crate".to_owned() } else { target.join("::") })
                .collect();
            if !circle.is_empty() {
                circles.insert(circle);
            }
        }
        circles.into_iter().collect()
    }
}

/// Returns the nodes that are reached from a node along edges. It is one of them if it is in a circle.
pub(super) fn reached_from<'i, N: Ord>(edges: &'i BTreeMap<N, BTreeSet<N>>, node: &'i N) -> BTreeSet<&'i N> {
    let mut reached = BTreeSet::new();
    let mut next = vec![node];
    while let Some(node) = next.pop() {
        next.extend(edges[node].iter().filter(|target| reached.insert(*target)));
    }
    reached
}

/// Returns the module of a file below `src`.
pub(super) fn module(file: &str) -> Module<'_> {
    match file.trim_end_matches(".rs") {
        "lib" | "main" => Module::new(),
        path => path.split('/').collect(),
    }
}

/// Returns the module that a path names, as seen from another module. It is the longest beginning of the path that is a
/// module.
fn resolve<'a>(from: &Module<'a>, path: &[&'a str], known: &BTreeSet<&Module<'a>>) -> Option<Module<'a>> {
    let supers = path.iter().take_while(|part| **part == "super").count();
    let mut target = match *path.first()? {
        "crate" => path[1..].to_vec(),
        "super" => [&from[..from.len().checked_sub(supers)?], &path[supers..]].concat(),
        "self" => [&from[..], &path[1..]].concat(),
        child => {
            let child = [&from[..], &[child]].concat();
            known.contains(&child).then(|| [&from[..], path].concat())?
        }
    };
    while !known.contains(&target) {
        target.pop()?;
    }
    Some(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports<'a>(files: &[(&'a str, &'a str)]) -> Imports<'a> {
        let read = |(file, code): &(&'a str, &'a str)| {
            let paths = tokens::paths(&tokens::read(code).unwrap()).into_iter().map(|path| path.parts);
            (module(file), paths.collect())
        };
        Imports::of(&files.iter().map(read).collect::<Vec<_>>())
    }

    fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
        imports(files).circles().into_iter().map(|circle| circle.join(" ")).collect()
    }

    #[test]
    fn layers_have_no_cycle() {
        let files = [("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::B;"), ("b.rs", "pub struct B;")];
        assert_eq!(circles_of(&files), Vec::<String>::new());
    }

    #[test]
    fn a_cycle_is_found_through_imports_of_every_form() {
        for back in [
            "use crate::{a::{self, A}, other};",
            "use super::a::A as Other;",
            "fn f() { super::a::g() }",
            "fn f() -> crate::a::A { unreachable!() }",
        ] {
            let files = [("lib.rs", ""), ("a.rs", "use crate::b::B;"), ("b.rs", back)];
            assert_eq!(circles_of(&files), ["a b"], "{back}");
        }
    }

    #[test]
    fn mutual_use_of_parent_and_child_is_a_cycle() {
        let files = [("a.rs", "mod part; use part::Part;"), ("a/part.rs", "use super::Whole;")];
        assert_eq!(circles_of(&files), ["a a::part"]);
        let files = [("a.rs", "mod part; use part::Part;"), ("a/part.rs", "use crate::b::B;"), ("b.rs", "")];
        assert_eq!(circles_of(&files), Vec::<String>::new());
    }

    #[test]
    fn a_crate_with_circles_is_found_with_their_files() {
        let circle = imports(&[("a.rs", "use crate::b::B;"), ("b.rs", "use crate::a::A;"), ("c.rs", "")]);
        let found = judge("leasehold-new", &circle).expect("a finding");
        assert!(found.contains("crates/leasehold-new: files in circles of imports: a, b"), "{found}");
        assert_eq!(judge("leasehold-old", &imports(&[])), None);
    }
}
