//! Cargo's metadata of the workspace and its dependencies.
//!
//! Invariant: the lock file is never updated, so two runs on one checkout see the same packages.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::shell::{cargo, output};

/// A package of the lock file.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// The oldest Rust that its manifest declares, if any.
    pub(crate) rust_version: Option<String>,
    /// True if the package is a member of the workspace.
    pub(crate) is_member: bool,
    /// True if the package may be published.
    pub(crate) is_public: bool,
    /// The manifest as cargo reads it.
    pub(crate) manifest: Value,
}

/// All packages and their dependencies.
pub(crate) struct Metadata {
    packages: BTreeMap<String, Package>,
    /// The ids that a package needs to build, by its id. Dependencies of tests alone are left out.
    needs: BTreeMap<String, Vec<String>>,
}

impl Metadata {
    /// Runs `cargo metadata`.
    pub(crate) fn load() -> Result<Self> {
        let arguments = ["metadata", "--locked", "--format-version", "1", "--all-features"];
        Self::parse(&output(&mut cargo(&arguments)?)?)
    }

    /// Parses the output of `cargo metadata`.
    pub(crate) fn parse(printed: &str) -> Result<Self> {
        let all: Value = serde_json::from_str(printed).context("cargo metadata prints JSON")?;
        let members: BTreeSet<&str> = list(&all["workspace_members"]).filter_map(Value::as_str).collect();
        let packages = list(&all["packages"]).map(|package| {
            let id = text(&package["id"])?;
            let found = Package {
                name: text(&package["name"])?,
                version: text(&package["version"])?,
                rust_version: package["rust_version"].as_str().map(str::to_owned),
                is_member: members.contains(id.as_str()),
                is_public: package["publish"].is_null(),
                manifest: package.clone(),
            };
            Ok((id, found))
        });
        let needs = list(&all["resolve"]["nodes"]).map(|node| {
            let builds = |dependency: &&Value| {
                list(&dependency["dep_kinds"]).any(|kind| kind["kind"].as_str() != Some("dev"))
            };
            let needed = list(&node["deps"]).filter(builds).map(|dependency| text(&dependency["pkg"]));
            Ok((text(&node["id"])?, needed.collect::<Result<_>>()?))
        });
        Ok(Self { packages: packages.collect::<Result<_>>()?, needs: needs.collect::<Result<_>>()? })
    }

    /// Returns the members that are published.
    pub(crate) fn public(&self) -> impl Iterator<Item = &Package> {
        self.packages.values().filter(|package| package.is_member && package.is_public)
    }

    /// Returns the members and all packages that they need to build. Dependencies of tests alone are left out.
    pub(crate) fn built(&self) -> Vec<&Package> {
        let members = self.packages.iter().filter(|(_, package)| package.is_member);
        let mut waiting: Vec<&String> = members.map(|(id, _)| id).collect();
        let mut seen = BTreeSet::new();
        while let Some(id) = waiting.pop() {
            if seen.insert(id) {
                waiting.extend(self.needs.get(id).into_iter().flatten());
            }
        }
        seen.into_iter().filter_map(|id| self.packages.get(id)).collect()
    }
}

/// Returns the elements of an array, empty for any other value.
pub(crate) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> Result<String> {
    value.as_str().map(str::to_owned).context("cargo metadata has a string here")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = r#"{
        "packages": [
            {"id": "own", "name": "own", "version": "0.1.0", "rust_version": "1.88", "publish": null},
            {"id": "tool", "name": "tool", "version": "0.1.0", "rust_version": null, "publish": []},
            {"id": "dep", "name": "dep", "version": "1.0.0", "rust_version": "1.60", "publish": null},
            {"id": "build", "name": "build", "version": "1.0.0", "rust_version": null, "publish": null},
            {"id": "test", "name": "test", "version": "1.0.0", "rust_version": "1.99", "publish": null}
        ],
        "workspace_members": ["own", "tool"],
        "resolve": {"nodes": [
            {"id": "own", "deps": [
                {"pkg": "dep", "dep_kinds": [{"kind": null}, {"kind": "dev"}]},
                {"pkg": "test", "dep_kinds": [{"kind": "dev"}]}
            ]},
            {"id": "tool", "deps": []},
            {"id": "dep", "deps": [{"pkg": "build", "dep_kinds": [{"kind": "build"}]}]},
            {"id": "build", "deps": []},
            {"id": "test", "deps": []}
        ]}
    }"#;

    #[test]
    fn packages_only_for_tests_are_not_built() {
        let metadata = Metadata::parse(PRINTED).unwrap();
        let mut built: Vec<&str> = metadata.built().iter().map(|package| package.name.as_str()).collect();
        built.sort_unstable();
        assert_eq!(built, ["build", "dep", "own", "tool"]);
    }

    #[test]
    fn a_publishable_member_is_public() {
        let metadata = Metadata::parse(PRINTED).unwrap();
        let public: Vec<&str> = metadata.public().map(|package| package.name.as_str()).collect();
        assert_eq!(public, ["own"]);
    }
}
