//! The rules for the manifests: lints and dependencies.
//!
//! Invariant: the parser reads only the TOML that these manifests use: one item per line, headers in brackets.

use std::collections::BTreeSet;

/// Dependencies that the pure floor must not have: runtimes, networks and random numbers.
const IMPURE: [&str; 8] = ["tokio", "redis", "rand", "fastrand", "getrandom", "mio", "socket2", "async-std"];
/// The most crates that a user of the library builds with its default features, and the client that must be none of them.
const TREE_MAX: usize = 45;
const OTHER_CLIENT: &str = "redis";

/// Returns true for the manifest of a member of the workspace.
pub(super) fn is_member(path: &str) -> bool {
    let is_in = |folder| path.strip_prefix(folder).is_some_and(|rest| rest.matches('/').count() == 1);
    let is_one_of_many = (is_in("crates/") || is_in("examples/")) && path.ends_with("/Cargo.toml");
    path == "xtask/Cargo.toml" || is_one_of_many
}

/// Floors, absence 6, first half: the workspace forbids unsafe code.
pub(super) fn unsafe_is_forbidden(workspace: &str) -> Option<String> {
    let forbidden = section(workspace, "workspace.lints.rust").any(|line| line == "unsafe_code = \"forbid\"");
    (!forbidden).then(|| "Cargo.toml: [workspace.lints.rust] does not forbid unsafe_code".to_owned())
}

/// Floors, absence 6, second half: every crate takes its lints from the workspace.
pub(super) fn inherits_lints(path: &str, manifest: &str) -> Option<String> {
    let inherits = section(manifest, "lints").any(|line| line == "workspace = true");
    (!inherits)
        .then(|| format!("{path}: [lints] workspace = true is missing, so unsafe code is not forbidden"))
}

/// Dependencies whose name the architecture page does not mention. Each needs a sentence there.
pub(super) fn unexplained_dependencies(workspace: &str, architecture: &str) -> Vec<String> {
    let words: Vec<_> = architecture.split(|letter: char| !is_name(letter)).collect();
    dependencies(workspace)
        .filter(|name| !name.starts_with("leasehold") && !words.contains(name))
        .map(|name| format!("ARCHITECTURE.md: no sentence about the dependency {name}"))
        .collect()
}

/// Floors, absence 1, from the output of `cargo tree --prefix none`.
pub(super) fn impure_dependencies(tree: &str) -> Vec<String> {
    let names = names_in(tree);
    let impure = names.iter().filter(|name| IMPURE.contains(name));
    impure
        .map(|name| format!("crates/leasehold-proto/Cargo.toml: depends on {name}, and must stay pure"))
        .collect()
}

/// What makes the library heavy for its users, from the same output.
pub(super) fn heavy_dependencies(tree: &str) -> Vec<String> {
    let names = names_in(tree);
    let other = names.contains(OTHER_CLIENT).then(|| format!("depends on {OTHER_CLIENT}"));
    let many = (names.len() > TREE_MAX)
        .then(|| format!("{} crates in its tree, and at most {TREE_MAX}", names.len()));
    let found = [other, many].into_iter().flatten();
    found.map(|found| format!("crates/leasehold/Cargo.toml: {found}")).collect()
}

/// Returns the names in the output of `cargo tree --prefix none`.
fn names_in(tree: &str) -> BTreeSet<&str> {
    tree.lines().filter_map(|line| line.split(' ').next()).filter(|name| !name.is_empty()).collect()
}

/// Returns the names under `[workspace.dependencies]`, including names with a header of their own.
fn dependencies(workspace: &str) -> impl Iterator<Item = &str> {
    let listed = section(workspace, "workspace.dependencies")
        .filter_map(|line| line.split(['=', '.', ' ']).next())
        .filter(|name| !name.is_empty() && name.chars().all(is_name));
    let headers = workspace
        .lines()
        .filter_map(|line| line.trim().strip_prefix("[workspace.dependencies.")?.strip_suffix(']'));
    listed.chain(headers)
}

/// Returns the lines under a header, trimmed.
fn section<'a>(manifest: &'a str, header: &str) -> impl Iterator<Item = &'a str> {
    let header = format!("[{header}]");
    manifest
        .lines()
        .map(str::trim)
        .skip_while(move |line| *line != header)
        .skip(1)
        .take_while(|line| !line.starts_with('['))
}

fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '-'
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKSPACE: &str = "[workspace.dependencies]\nleasehold = { path = \"x\" }\ntokio = \"1\"\n# a comment\n\n\
                             futures-util = { version = \"0.3\" }\n[workspace.dependencies.redis]\nversion = \"1\"\n\
                             [workspace.lints.rust]\nunsafe_code = \"forbid\"\n";

    #[test]
    fn dependencies_without_an_explanation_are_found() {
        let findings =
            unexplained_dependencies(WORKSPACE, "`tokio` runs it; futures-util-extra is not futures.");
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].ends_with("futures-util") && findings[1].ends_with("redis"), "{findings:?}");
    }

    #[test]
    fn lints_must_be_inherited_and_forbid_unsafe_code() {
        assert!(unsafe_is_forbidden(WORKSPACE).is_none());
        assert!(unsafe_is_forbidden("[workspace.lints.rust]\nunsafe_code = \"warn\"").is_some());
        assert!(inherits_lints("a", "[package]\n[lints]\nworkspace = true\n").is_none());
        assert!(inherits_lints("a", "[package]\nworkspace = true\n[lints]\n").is_some());
    }

    #[test]
    fn only_whole_names_make_the_pure_layer_impure() {
        let findings =
            impure_dependencies("leasehold-proto v0.1.0 (/x)\nrand_core v0.9\nrand v0.9\nrand v0.9 (*)\n");
        assert_eq!(findings.len(), 1, "{findings:?}");
    }

    #[test]
    fn many_crates_and_another_client_are_heavy() {
        let many: String = (0..TREE_MAX).map(|number| format!("crate{number} v1.0\n")).collect();
        assert!(heavy_dependencies(&many).is_empty());
        assert_eq!(heavy_dependencies(&(many + "redis v1.0\nredis v1.0 (*)\n")).len(), 2);
    }

    #[test]
    fn members_are_distinguished_from_nested_packages() {
        assert!(is_member("crates/leasehold/Cargo.toml") && is_member("xtask/Cargo.toml"));
        assert!(is_member("examples/orders/Cargo.toml"));
        assert!(!is_member("crates/leasehold/tests/ui/Cargo.toml") && !is_member("fuzz/Cargo.toml"));
    }
}
