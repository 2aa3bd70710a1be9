//! The repository's own rules, stated as absences.
//!
//! Invariant: every rule is a function from text to findings, so its tests need no checkout.

mod circles;
mod code;
mod commits;
mod folders;
mod impls;
mod killers;
mod ledger;
mod manifests;
mod pages;
mod promises;
mod source;
mod tokens;
mod wire;

use anyhow::Result;

use crate::mutants;
use crate::shell::{cargo, output, root};
use source::{Checkout, Source};

/// The result of all rules.
#[derive(Default)]
pub(crate) struct Report {
    /// The broken rules, each with its place.
    pub(crate) findings: Vec<String>,
    /// Remarks that are no errors.
    pub(crate) notes: Vec<String>,
    /// The number of Rust files.
    pub(crate) sources: usize,
}

/// Checks all rules on this checkout.
pub(crate) fn check() -> Result<Report> {
    let root = root()?;
    let files = Checkout::read(&root)?;
    let mut report = Report::default();
    let mut sources = Vec::new();
    for (path, text) in files.texts(|path| path.ends_with(".rs")) {
        match Source::new(path, text) {
            Ok(source) => sources.push(source),
            Err(error) => report.findings.push(format!("{error:#}")),
        }
    }
    report.sources = sources.len();
    for source in &sources {
        report.findings.extend(code::RULES.iter().flat_map(|rule| rule(source)));
        report.notes.extend(code::long_file(source));
    }
    report.findings.extend(circles::circles(&sources));
    report.findings.extend(impls::impls(&sources));
    report.findings.extend(folders::long_folders(&files.paths));
    report.findings.extend(pages::stray_lua(&files.paths));
    report.findings.extend(pages::decision_numbers(&files.paths));
    let tests = promises::all_tests(&sources);
    report.findings.extend(promises::untested(files.text("docs/verification.md")?, &tests));
    report.findings.extend(promises::unstated(files.text("docs/guarantees.md")?));
    let ledger = files.text("docs/ledger.md")?;
    report.findings.extend(ledger::stale(ledger, &tests, &sources, &files.paths));
    report.findings.extend(ledger::repeated(ledger));
    report.findings.extend(pages::repeated_changes(files.text("CHANGELOG.md")?));
    report.findings.extend(pages::long_glossary(files.text("docs/glossary.md")?));
    match commits::check(&root) {
        Ok(findings) => report.findings.extend(findings),
        Err(reason) => report.notes.push(format!("commits are not checked: {reason}")),
    }
    check_manifests(&files, &mut report)?;
    report.findings.extend(check_wire(&files)?);
    let mutants = mutants::all()?;
    report.findings.extend(killers::missing(&mutants, &sources));
    let stale = mutants.iter().filter_map(|mutant| mutant.check(&root).err());
    report.findings.extend(stale.map(|error| error.to_string()));
    Ok(report)
}

fn check_wire(files: &Checkout) -> Result<Vec<String>> {
    let sections = wire::Sections::of(files.text(wire::PAGE)?);
    let scripts = files.texts(pages::is_script).flat_map(|(path, text)| sections.cited_by(path, text));
    // The unit tests of the rule have broken links of their own.
    let is_linking = |path: &str| {
        pages::is_script(path)
            || path.ends_with(".md")
            || (path.ends_with(".rs") && path != "xtask/src/tidy/wire.rs")
    };
    let links = files.texts(is_linking).flat_map(|(path, text)| sections.linked_by(path, text));
    Ok(scripts.chain(links).collect())
}

fn check_manifests(files: &Checkout, report: &mut Report) -> Result<()> {
    let (workspace, architecture) = (files.text("Cargo.toml")?, files.text("ARCHITECTURE.md")?);
    report.findings.extend(manifests::unsafe_is_forbidden(workspace));
    for (path, manifest) in files.texts(manifests::is_member) {
        report.findings.extend(manifests::inherits_lints(path, manifest));
    }
    report.findings.extend(pages::long_architecture(architecture));
    report.findings.extend(manifests::unexplained_dependencies(workspace, architecture));
    // Needs `--target all`, because a dependency of one platform counts too.
    let tree = ["tree", "-p", "leasehold-proto", "-e", "normal", "--target", "all", "--prefix", "none"];
    report.findings.extend(manifests::impure_dependencies(&output(&mut cargo(&tree)?)?));
    let tree = ["tree", "-p", "leasehold", "-e", "normal,build", "--prefix", "none"];
    report.findings.extend(manifests::heavy_dependencies(&output(&mut cargo(&tree)?)?));
    Ok(())
}
