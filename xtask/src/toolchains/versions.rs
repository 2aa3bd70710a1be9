//! The versions of packages, read from the lock files that pin them.
//!
//! Invariant: a version is that of the package of exactly this name.

use std::fs;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Language, Workshop};

/// The workspace of all peers in Rust, from the root.
const RUST: &str = "bench/peers/rust";

/// Returns the version of a package, which its lock file has under this name.
pub(crate) fn of(language: Language, package: &str, workshop: &Workshop) -> Result<String> {
    let (file, find): (_, fn(&str, &str) -> Option<String>) = match language {
        Language::Rust => ("Cargo.lock", in_cargo_lock),
        Language::Go => ("go.mod", in_go_mod),
        Language::Java => ("pom.xml", in_pom),
        Language::Node => ("package-lock.json", in_package_lock),
        Language::Python => ("requirements.txt", in_requirements),
    };
    let folder = match language {
        Language::Rust => workshop.root.join(RUST),
        _ => workshop.sources(language),
    };
    let path = folder.join(file);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    find(&text, package).with_context(|| format!("{file} does not pin {package}"))
}

fn in_cargo_lock(text: &str, package: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("name = \"{package}\"\nversion = \""))?;
    rest.split('"').next().map(str::to_owned)
}

fn in_go_mod(text: &str, package: &str) -> Option<String> {
    let versions = text.lines().filter_map(|line| line.trim().strip_prefix(package)?.strip_prefix(" v"));
    versions.filter_map(|rest| rest.split_whitespace().next()).next().map(str::to_owned)
}

fn in_pom(text: &str, package: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("<{package}.version>"))?;
    rest.split('<').next().map(str::to_owned)
}

fn in_package_lock(text: &str, package: &str) -> Option<String> {
    let lock: Value = serde_json::from_str(text).ok()?;
    lock["packages"][format!("node_modules/{package}")]["version"].as_str().map(str::to_owned)
}

fn in_requirements(text: &str, package: &str) -> Option<String> {
    let mut versions = text.lines().filter_map(|line| line.strip_prefix(package)?.strip_prefix("=="));
    versions.next()?.split_whitespace().next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_pins_whole_names_only() {
        let cargo =
            "name = \"redis-x\"\nversion = \"9\"\n[[package]]\nname = \"redis\"\nversion = \"1.8.1\"\n";
        assert_eq!(in_cargo_lock(cargo, "redis").as_deref(), Some("1.8.1"));
        let go = "require (\n\texample.org/a/b v2.0.0\n\texample.org/a v1.2.3 // indirect\n)";
        assert_eq!(in_go_mod(go, "example.org/a").as_deref(), Some("1.2.3"));
        assert_eq!(
            in_pom("<redisson.version>4.7.0</redisson.version>", "redisson").as_deref(),
            Some("4.7.0")
        );
        let node = r#"{"packages": {"node_modules/redlock": {"version": "5.0.0-beta.2"}}}"#;
        assert_eq!(in_package_lock(node, "redlock").as_deref(), Some("5.0.0-beta.2"));
        let python = "python-redis==3\nredis-x==2\nredis==8.1.0 \\\n    --hash=sha256:0\n";
        assert_eq!(in_requirements(python, "redis").as_deref(), Some("8.1.0"));
        assert_eq!(in_requirements(python, "rq"), None);
    }
}
