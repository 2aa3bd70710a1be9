//! `cargo x package`: packs the crates as for publication, and builds them from the packages alone.
//!
//! Invariant: the verb uploads nothing and changes no file of the checkout. Uncommitted changes go into the packages
//! too, so the verb works at any time.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::take_none;
use crate::metadata::{Metadata, Package, list};
use crate::shell::{Done, cargo, on_ci, output, root, run as run_command};

/// The fields of a manifest that the index shows.
const SHOWN: [&str; 5] = ["description", "license", "repository", "homepage", "readme"];
/// The files that every package contains.
const FILES: [&str; 4] = ["Cargo.toml", "README.md", "LICENSE-MIT", "LICENSE-APACHE"];
/// The folders that no package contains.
const KEPT: [&str; 3] = ["tests/", "benches/", "examples/"];
/// The largest number of keywords and of categories that the index accepts.
const WORDS_MAX: usize = 5;

/// The release of cargo-semver-checks, which no package index has built. It reads the output of the rustdoc of its
/// time. A newer Rust may need a newer release, and then the check fails with a message.
const SEMVER_CHECKS: &str = "0.51.0";

/// The manifest of a user's project.
const PROJECT: &str = r#"[package]
name = "user"
edition = "2024"

[workspace]

[dependencies]
leasehold-cli = "*"
locks = { package = "leasehold", version = "*", features = ["blocking", "config", "embedded"] }
"#;
/// The program of a user's project.
const PROGRAM: &str = r#"#![forbid(unsafe_code)]

#[locks::locked(name = "order:{order_id}", wait = "5s", client = client, crate = ::locks)]
async fn charge(client: &locks::Client, order_id: u64) -> Result<u64, locks::Error> {
    Ok(order_id)
}

#[locks::locked(name = "report", crate = ::locks)]
fn report() -> Result<(), locks::Error> {
    Ok(())
}

fn main() {
    let _ = (charge, report);
    let _ = leasehold_cli::main(std::env::args_os());
}
"#;

/// Packs and builds all crates.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    take_none(arguments)?;
    if let Done::Except(limit) = check()? {
        println!("not shown here: {limit}");
    }
    Ok(())
}

/// Packs and builds all crates, as a part of `verify`.
pub(crate) fn check() -> Result<Done> {
    let metadata = Metadata::load()?;
    let mut findings = Vec::new();
    for package in metadata.public() {
        findings.extend(undescribed(package));
        let list = ["package", "--locked", "--allow-dirty", "--list", "-p", &package.name];
        findings.extend(misplaced(&package.name, &output(&mut cargo(&list)?)?));
        findings.extend(outward(package)?);
    }
    findings.iter().for_each(|finding| println!("{finding}"));
    ensure!(findings.is_empty(), "{} finding(s) about the packages", findings.len());
    // Needs `--quiet`, because cargo warns of every test that is not in the package.
    let publish =
        ["publish", "--quiet", "--locked", "--workspace", "--dry-run", "--allow-dirty", "--no-verify"];
    run_command(&mut cargo(&publish)?)?;
    let packages: Vec<&Package> = metadata.public().collect();
    user(&packages)?;
    semver()
}

/// Compiles a user's project, which renames the library, against the packages. This is one build that reuses compiled
/// dependencies. Cargo's own verification would build every package and its dependencies separately.
fn user(packages: &[&Package]) -> Result<()> {
    let root = root()?.canonicalize()?;
    let folder = root.join("target/package");
    let project = folder.join("user");
    let _ = fs::remove_dir_all(&project);
    fs::create_dir_all(project.join("src"))?;
    let mut patches = String::new();
    for Package { name, version, .. } in packages {
        let archive = folder.join(format!("tmp-registry/{name}-{version}.crate"));
        ensure!(archive.is_file(), "cargo made no {}", archive.display());
        // Packages have one fixed time for all files, by which cargo would take those of an earlier run for unchanged.
        run_command(Command::new("tar").arg("-xzmf").arg(archive).arg("-C").arg(&project))?;
        patches += &format!("{name} = {{ path = \"{name}-{version}\" }}\n");
    }
    let workspace = fs::read_to_string(root.join("Cargo.toml"))?;
    fs::write(project.join("Cargo.toml"), manifest(&workspace, &patches))?;
    fs::write(project.join("src/main.rs"), PROGRAM)?;
    fs::copy(root.join("Cargo.lock"), project.join("Cargo.lock"))?;
    let mut check = cargo(&["check", "--quiet"])?;
    run_command(check.current_dir(project).env("CARGO_TARGET_DIR", root.join("target")))
}

/// Builds the manifest of a user's project. It has the profiles of the workspace, so compiled dependencies fit.
fn manifest(workspace: &str, patches: &str) -> String {
    let profiles = workspace.find("[profile.").map_or("", |at| &workspace[at..]);
    format!("{PROJECT}\n[patch.crates-io]\n{patches}\n{profiles}")
}

/// Findings about a manifest that lacks data for the index, docs.rs or the dependency rules.
fn undescribed(package: &Package) -> Vec<String> {
    let manifest = &package.manifest;
    let mut missing: Vec<String> =
        SHOWN.iter().filter(|field| manifest[**field].is_null()).map(|field| format!("no {field}")).collect();
    for words in ["keywords", "categories"] {
        if !(1..=WORDS_MAX).contains(&list(&manifest[words]).count()) {
            missing.push(format!("1 to {WORDS_MAX} {words} are needed"));
        }
    }
    let has_library = list(&manifest["targets"])
        .any(|target| list(&target["kind"]).any(|kind| kind == "lib" || kind == "proc-macro"));
    let docs = &manifest["metadata"]["docs"]["rs"];
    if has_library && !list(&docs["rustdoc-args"]).any(|argument| argument == "docsrs") {
        missing.push("[package.metadata.docs.rs] does not pass --cfg docsrs".to_owned());
    }
    for dependency in list(&manifest["dependencies"]) {
        let (name, is_dev) = (&dependency["name"], dependency["kind"] == "dev");
        let has_version = dependency["req"] != "*";
        if name == "leasehold-testkit" && (!is_dev || has_version) {
            missing.push("leasehold-testkit is a dev-dependency by path alone".to_owned());
        }
    }
    missing.into_iter().map(|what| format!("{}: {what}", package.name)).collect()
}

/// Findings about files that a package lacks, or that do not belong into it, from cargo's list.
fn misplaced(name: &str, listed: &str) -> Vec<String> {
    let files: BTreeSet<&str> = listed.lines().collect();
    let lacks = FILES.iter().filter(|file| !files.contains(**file)).map(|file| format!("{name}: no {file}"));
    let extra = files
        .iter()
        .filter(|file| KEPT.iter().any(|folder| file.starts_with(folder)))
        .map(|file| format!("{name}: {file} is for the repository alone"));
    lacks.chain(extra).collect()
}

/// Findings about includes that lead out of the package, which users could not build.
fn outward(package: &Package) -> Result<Vec<String>> {
    let manifest = package.manifest["manifest_path"].as_str().context("a package has a manifest")?;
    let source = Path::new(manifest).with_file_name("src");
    let mut findings = Vec::new();
    let mut folders = vec![source.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let inside = path.strip_prefix(&source)?;
                // The number of folders from the file up to the package.
                let depth = inside.components().count();
                let text = fs::read_to_string(&path)?;
                findings.extend(leads_out(&text, depth).map(|line| {
                    format!("{}: src/{}:{line} includes a file from outside", package.name, inside.display())
                }));
            }
        }
    }
    Ok(findings)
}

/// Returns the lines with an include that goes up more than `depth` folders.
fn leads_out(text: &str, depth: usize) -> impl Iterator<Item = usize> {
    let up = "../".repeat(depth + 1);
    let includes = ["include_str!(\"", "include_bytes!(\"", "include!(\""].map(|call| format!("{call}{up}"));
    let lines = text.lines().enumerate();
    lines.filter(move |(_, line)| includes.iter().any(|call| line.contains(call))).map(|(index, _)| index + 1)
}

/// Checks that the interfaces are compatible with the interfaces of the last release.
fn semver() -> Result<Done> {
    let mut describe = Command::new("git");
    describe.args(["describe", "--tags", "--abbrev=0", "--match", "v*"]).current_dir(root()?);
    let Ok(tag) = output(&mut describe) else {
        return Ok(Done::Except("compatibility with the last release: there is no tag yet".to_owned()));
    };
    let tag = tag.trim();
    let Some(mut check) = semver_checks(on_ci())? else {
        let install = format!("cargo install --locked cargo-semver-checks@{SEMVER_CHECKS}");
        return Ok(Done::Except(format!(
            "compatibility with {tag}: cargo-semver-checks is not installed; `{install}` brings it"
        )));
    };
    run_command(check.args(["--workspace", "--baseline-rev", tag]))?;
    Ok(Done::Fully)
}

/// Returns the program that compares interfaces. It is the program of this machine, or a program below the target
/// folder, which is built first if `may_install` allows it.
fn semver_checks(may_install: bool) -> Result<Option<Command>> {
    if output(&mut cargo(&["semver-checks", "--version"])?).is_ok() {
        return Ok(Some(cargo(&["semver-checks"])?));
    }
    let folder = root()?.join("target/tools/cargo-semver-checks");
    let program = folder.join("bin/cargo-semver-checks");
    if output(Command::new(&program).args(["semver-checks", "--version"])).is_err() {
        if !may_install {
            return Ok(None);
        }
        let mut install = cargo(&["install", "--quiet", "--locked", "--force", "--version", SEMVER_CHECKS])?;
        run_command(install.arg("cargo-semver-checks").arg("--root").arg(&folder))?;
    }
    let mut check = Command::new(program);
    check.arg("semver-checks").current_dir(root()?);
    Ok(Some(check))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_manifest_entries_are_found() {
        let package = |manifest: &str| {
            let printed = format!(
                r#"{{"packages": [{{"id": "a", "name": "a", "version": "1.0.0", "publish": null, {manifest}}}],
                    "workspace_members": ["a"], "resolve": {{"nodes": []}}}}"#
            );
            undescribed(Metadata::parse(&printed).unwrap().public().next().unwrap())
        };
        let whole = r#""description": "d", "license": "MIT", "repository": "r", "homepage": "h", "readme": "README.md",
            "keywords": ["lock"], "categories": ["concurrency"], "targets": [{"kind": ["lib"]}],
            "metadata": {"docs": {"rs": {"rustdoc-args": ["--cfg", "docsrs"]}}},
            "dependencies": [{"name": "leasehold-testkit", "kind": "dev", "req": "*"}]"#;
        assert_eq!(package(whole), Vec::<String>::new());
        for (from, to) in [
            (r#""description": "d""#, r#""description": null"#),
            (r#""readme": "README.md""#, r#""readme": null"#),
            (r#"["lock"]"#, "[]"),
            (r#"["concurrency"]"#, r#"["1", "2", "3", "4", "5", "6"]"#),
            (r#"["--cfg", "docsrs"]"#, "[]"),
            (r#""kind": "dev""#, r#""kind": null"#),
            (r#""req": "*""#, r#""req": "^0.1""#),
        ] {
            assert_eq!(package(&whole.replace(from, to)).len(), 1, "{to}");
        }
    }

    #[test]
    fn missing_and_extra_files_are_found() {
        let whole = "Cargo.toml\nREADME.md\nLICENSE-MIT\nLICENSE-APACHE\nsrc/lib.rs\nsrc/tests/mod.rs\n";
        assert_eq!(misplaced("a", whole), Vec::<String>::new());
        assert_eq!(misplaced("a", &whole.replace("LICENSE-MIT\n", "")), ["a: no LICENSE-MIT"]);
        assert_eq!(misplaced("a", &format!("{whole}tests/a.rs\nbenches/b.rs\n")).len(), 2);
    }

    #[test]
    fn an_include_that_leaves_the_package_is_found() {
        let text = "a(include_str!(\"../scripts/a.lua\"));\nb(include_str!(\"../../README.md\"));\n";
        assert_eq!(leads_out(text, 1).collect::<Vec<_>>(), [2]);
        assert_eq!(leads_out(text, 2).count(), 0);
    }
}
