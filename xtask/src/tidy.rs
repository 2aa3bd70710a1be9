//! The repository's own rules, stated as absences.
//!
//! Invariant: every rule is a function from text to findings, so its tests need no checkout.

mod circles;
mod code;
mod commits;
mod ledger;
mod lexer;
mod manifests;
mod pages;
mod promises;
mod source;
mod voice;
mod wire;

use std::path::Path;

use anyhow::Result;

use crate::shell::{cargo, output, root};
use source::Source;

/// The result of all rules.
#[derive(Default)]
pub(crate) struct Report {
    /// The broken rules, each with its place.
    pub(crate) findings: Vec<String>,
    /// Remarks that are no errors.
    pub(crate) notes: Vec<String>,
    /// The number of Rust files.
    pub(crate) sources: usize,
    /// The figures of the prose, as a table.
    pub(crate) voice: Vec<String>,
}

/// Checks all rules on this checkout.
pub(crate) fn check() -> Result<Report> {
    let root = root()?;
    let paths = source::walk(&root)?;
    let mut report = Report::default();
    let mut sources = Vec::new();
    for path in paths.iter().filter(|path| path.ends_with(".rs")) {
        let text = source::read(&root, path)?;
        let source = Source::new(path, &text);
        report.sources += 1;
        report.findings.extend(code::RULES.iter().flat_map(|rule| rule(&source)));
        report.notes.extend(code::long_file(&source));
        sources.push(source);
    }
    report.findings.extend(circles::circles(&sources));
    report.findings.extend(pages::stray_lua(&paths));
    report.findings.extend(pages::decision_numbers(&paths));
    let verification = source::read(&root, "docs/verification.md")?;
    let tests = promises::all_tests(&sources);
    report.findings.extend(promises::untested(&verification, &tests));
    report.findings.extend(promises::unstated(&source::read(&root, "docs/guarantees.md")?));
    let ledger = source::read(&root, "docs/ledger.md")?;
    report.findings.extend(ledger::stale(&ledger, &tests, &sources, &paths));
    report.findings.extend(ledger::repeated(&ledger));
    report.findings.extend(pages::repeated_changes(&source::read(&root, "CHANGELOG.md")?));
    report.findings.extend(pages::long_glossary(&source::read(&root, "docs/glossary.md")?));
    check_voice(&root, &paths, &sources, &mut report)?;
    match commits::check(&root) {
        Ok(findings) => report.findings.extend(findings),
        Err(reason) => report.notes.push(format!("commits are not checked: {reason}")),
    }
    check_manifests(&root, &paths, &mut report)?;
    report.findings.extend(check_wire(&root, &paths)?);
    Ok(report)
}

fn check_voice(root: &Path, paths: &[String], sources: &[Source], report: &mut Report) -> Result<()> {
    let read = |path: &String| Ok((path.clone(), source::read(root, path)?));
    let texts = |is_chosen: fn(&str) -> bool| -> Result<Vec<(String, String)>> {
        paths.iter().filter(|path| is_chosen(path)).map(read).collect()
    };
    let mut voices = voice::of_crates(sources, &texts(|path| path.ends_with(".lua"))?);
    voices.extend(texts(pages::is_page)?.iter().map(|(path, text)| voice::of_page(path, text)));
    report.findings.extend(voices.iter().flat_map(voice::Voice::findings));
    report.voice = voice::table(&voices);
    Ok(())
}

fn check_wire(root: &Path, paths: &[String]) -> Result<Vec<String>> {
    let sections = wire::Sections::of(&source::read(root, wire::PAGE)?);
    let mut findings = Vec::new();
    for path in paths {
        let is_script = pages::is_script(path);
        // The unit tests of the rule have broken links of their own.
        if is_script || path.ends_with(".md") || (path.ends_with(".rs") && path != "xtask/src/tidy/wire.rs") {
            let text = source::read(root, path)?;
            findings.extend(sections.linked_by(path, &text));
            if is_script {
                findings.extend(sections.cited_by(path, &text));
            }
        }
    }
    Ok(findings)
}

fn check_manifests(root: &Path, paths: &[String], report: &mut Report) -> Result<()> {
    let workspace = source::read(root, "Cargo.toml")?;
    report.findings.extend(manifests::unsafe_is_forbidden(&workspace));
    for path in paths.iter().filter(|path| manifests::is_member(path)) {
        report.findings.extend(manifests::inherits_lints(path, &source::read(root, path)?));
    }
    match source::read(root, "ARCHITECTURE.md") {
        Ok(architecture) => {
            report.findings.extend(pages::long_architecture(&architecture));
            report.findings.extend(manifests::unexplained_dependencies(&workspace, &architecture));
        }
        Err(_) => report.findings.push("ARCHITECTURE.md is missing".to_owned()),
    }
    // Needs `--target all`, because a dependency of one platform counts too.
    let tree = ["tree", "-p", "leasehold-proto", "-e", "normal", "--target", "all", "--prefix", "none"];
    report.findings.extend(manifests::impure_dependencies(&output(&mut cargo(&tree)?)?));
    Ok(())
}
