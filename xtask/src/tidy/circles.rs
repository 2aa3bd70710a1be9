//! The rule that the modules of a crate form floors, without a circle of imports within a crate.
//!
//! Invariant: a path counts for the module that it names, an item for the module that holds it. Unit tests do not count.
//!
//! # How it works
//! Each file is a node. Its edges are the paths in its code that begin with `crate`, `super`, `self` or the name of one
//! of its child modules. A file that reaches itself along edges is in a circle. [`IN_CIRCLES`] holds the number of such
//! files that each crate still has. The number may only fall.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Source, is_word};

/// The files in circles per crate. The rule fails on more, and on fewer until the number here is lowered.
const IN_CIRCLES: [(&str, usize); 4] =
    [("leasehold", 53), ("leasehold-macros", 4), ("leasehold-proto", 11), ("leasehold-testkit", 4)];

/// A module by its path from the root of its crate, which is empty for the root itself.
type Module = Vec<String>;

/// The modules of one crate, and the modules that each of them names.
#[derive(Default)]
struct Imports(BTreeMap<Module, BTreeSet<Module>>);

/// Reports each crate whose number of files in circles is another than [`IN_CIRCLES`] says.
pub(super) fn circles(sources: &[Source]) -> Vec<String> {
    let mut crates: BTreeMap<&str, Vec<(Module, String)>> = BTreeMap::new();
    for source in sources {
        let Some((name, file)) =
            source.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
        else {
            continue;
        };
        let code = source.code().flat_map(|(_, line)| [line, "\n"]).collect();
        crates.entry(name).or_default().push((module(file), code));
    }
    let judged = crates.into_iter().filter_map(|(name, files)| {
        let known = IN_CIRCLES.iter().find(|(known, _)| *known == name).map_or(0, |(_, files)| *files);
        judge(name, known, &Imports::of(&files))
    });
    judged.collect()
}

fn judge(name: &str, known: usize, imports: &Imports) -> Option<String> {
    let circles = imports.circles();
    let files: usize = circles.iter().map(Vec::len).sum();
    let listed = || circles.iter().map(|circle| circle.join(", ")).collect::<Vec<_>>().join("; ");
    match files.cmp(&known) {
        std::cmp::Ordering::Greater => {
            Some(format!("crates/{name}: {files} files in circles of imports, {known} before: {}", listed()))
        }
        std::cmp::Ordering::Less => Some(format!(
            "crates/{name}: {files} files in circles of imports; lower {known} in tidy/circles.rs to it"
        )),
        std::cmp::Ordering::Equal => None,
    }
}

impl Imports {
    fn of(files: &[(Module, String)]) -> Self {
        let known: BTreeSet<&Module> = files.iter().map(|(module, _)| module).collect();
        let named = files.iter().map(|(module, code)| {
            let paths = paths(code).into_iter().filter_map(|path| resolve(module, &path, &known));
            (module.clone(), paths.filter(|target| target != module).collect())
        });
        Self(named.collect())
    }

    /// The circles, each as the sorted names of its modules.
    fn circles(&self) -> Vec<Vec<String>> {
        let reached: BTreeMap<&Module, BTreeSet<&Module>> =
            self.0.keys().map(|module| (module, self.reached_from(module))).collect();
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

    fn reached_from<'a>(&'a self, module: &'a Module) -> BTreeSet<&'a Module> {
        let mut reached = BTreeSet::new();
        let mut next = vec![module];
        while let Some(module) = next.pop() {
            next.extend(self.0[module].iter().filter(|target| reached.insert(*target)));
        }
        reached
    }
}

/// The module of a file below `src`.
fn module(file: &str) -> Module {
    match file.trim_end_matches(".rs") {
        "lib" | "main" => Module::new(),
        path => path.split('/').map(str::to_owned).collect(),
    }
}

/// The module that a path names, as seen from another module. It is the longest beginning of the path that is a module.
fn resolve(from: &Module, path: &[String], known: &BTreeSet<&Module>) -> Option<Module> {
    let supers = path.iter().take_while(|part| *part == "super").count();
    let mut target = match path.first()?.as_str() {
        "crate" => path[1..].to_vec(),
        "super" => [&from[..from.len().checked_sub(supers)?], &path[supers..]].concat(),
        "self" => [&from[..], &path[1..]].concat(),
        child => {
            let child = [&from[..], &[child.to_owned()]].concat();
            known.contains(&child).then(|| [&from[..], path].concat())?
        }
    };
    while !known.contains(&target) {
        target.pop()?;
    }
    Some(target)
}

/// All paths in a file's code, with the trees of imports expanded.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find(|letter: char| letter.is_alphabetic() || letter == '_') {
        rest = &rest[at..];
        let word = word(rest);
        if word == "use" {
            let (tree, after) = rest[word.len()..].split_once(';').unwrap_or((&rest[word.len()..], ""));
            expand(tree, &[], &mut found);
            rest = after;
            continue;
        }
        let mut path = vec![word.to_owned()];
        rest = &rest[word.len()..];
        while let Some(after) = rest.strip_prefix("::") {
            let next = self::word(after);
            if next.is_empty() {
                break;
            }
            path.push(next.to_owned());
            rest = &after[next.len()..];
        }
        if path.len() > 1 {
            found.push(path);
        }
    }
    found
}

/// The paths of an import's tree.
fn expand(tree: &str, before: &[String], found: &mut Vec<Vec<String>>) {
    let (path, branches) = match tree.split_once('{') {
        Some((path, branches)) => (path, Some(branches.trim_end().trim_end_matches('}'))),
        None => (tree.split(" as ").next().unwrap_or(tree), None),
    };
    let parts = path.split("::").map(str::trim).filter(|part| !part.is_empty());
    let path: Vec<String> = before.iter().cloned().chain(parts.map(str::to_owned)).collect();
    match branches {
        Some(branches) => split(branches).into_iter().for_each(|branch| expand(branch, &path, found)),
        None => found.push(path),
    }
}

/// The branches of a tree, which are its parts between commas that stand in no inner braces.
fn split(branches: &str) -> Vec<&str> {
    let (mut depth, mut begin) = (0_usize, 0);
    let mut found = Vec::new();
    for (at, letter) in branches.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                found.push(&branches[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    found.push(&branches[begin..]);
    found.into_iter().map(str::trim).filter(|branch| !branch.is_empty()).collect()
}

fn word(text: &str) -> &str {
    let end = text.find(|letter| !is_word(letter));
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(files: &[(&str, &str)]) -> Imports {
        let files: Vec<_> = files.iter().map(|(file, code)| (module(file), (*code).to_owned())).collect();
        Imports::of(&files)
    }

    fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
        imports(files).circles().into_iter().map(|circle| circle.join(" ")).collect()
    }

    #[test]
    fn floors_have_no_circle() {
        let files = [("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::B;"), ("b.rs", "pub struct B;")];
        assert_eq!(circles_of(&files), Vec::<String>::new());
    }

    #[test]
    fn a_circle_is_found_through_imports_of_every_form() {
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
    fn a_parent_that_uses_its_child_and_is_used_by_it_is_a_circle() {
        let files = [("a.rs", "mod part; use part::Part;"), ("a/part.rs", "use super::Whole;")];
        assert_eq!(circles_of(&files), ["a a::part"]);
        let files = [("a.rs", "mod part; use part::Part;"), ("a/part.rs", "use crate::b::B;"), ("b.rs", "")];
        assert_eq!(circles_of(&files), Vec::<String>::new());
    }

    #[test]
    fn more_circles_than_before_and_fewer_are_found() {
        let circle = imports(&[("a.rs", "use crate::b::B;"), ("b.rs", "use crate::a::A;")]);
        let more = judge("leasehold-new", 0, &circle).expect("a finding");
        assert!(more.contains("2 files in circles of imports, 0 before: a, b"), "{more}");
        assert_eq!(judge("leasehold-old", 2, &circle), None);
        let fewer = judge("leasehold-old", 2, &imports(&[])).expect("a finding");
        assert!(fewer.contains("lower 2"), "{fewer}");
    }
}
