//! The rules for scripts and documents.
//!
//! Invariant: a rule needs only paths, or the text of one page.

use std::collections::{BTreeMap, HashMap};

const SCRIPTS: &str = "crates/leasehold-proto/scripts/";
/// The scripts of the simulator's foreign clients, which are not leasehold's on purpose.
const FOREIGN: &str = "crates/leasehold-sim/foreign/";
const DECISIONS: &str = "docs/decisions/";
/// The length that a newcomer can read at once.
const ARCHITECTURE_LINES: usize = 150;
/// The most words of the glossary, as many as a contributor can learn.
const GLOSSARY_WORDS: usize = 40;

/// Returns true if a file is one of leasehold's scripts.
pub(super) fn is_script(path: &str) -> bool {
    path.starts_with(SCRIPTS) && path.ends_with(".lua")
}

/// Floors, absence 5: Lua exists in one place.
pub(super) fn stray_lua(paths: &[String]) -> Vec<String> {
    let allowed = |path: &String| path.starts_with(SCRIPTS) || path.starts_with(FOREIGN);
    let stray = paths.iter().filter(|path| path.ends_with(".lua") && !allowed(path));
    stray.map(|path| format!("{path}: Lua exists only under {SCRIPTS}")).collect()
}

/// Decisions have names of the form `NNNN-title.md`, and each number occurs once.
pub(super) fn decision_numbers(paths: &[String]) -> Vec<String> {
    let mut findings = Vec::new();
    let mut by_number = BTreeMap::new();
    for path in paths {
        let Some(name) = path.strip_prefix(DECISIONS).filter(|name| name.ends_with(".md")) else {
            continue;
        };
        let Some(number) = number_of(name) else {
            if name != "README.md" {
                findings.push(format!("{path}: a decision is called NNNN-title.md"));
            }
            continue;
        };
        if let Some(other) = by_number.insert(number, path) {
            findings.push(format!("{path}: has the number of {other}"));
        }
    }
    findings
}

fn number_of(name: &str) -> Option<&str> {
    let (number, title) = name.split_once('-')?;
    let is_number = number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && title.len() > ".md".len()).then_some(number)
}

/// The architecture page stays short enough to read at once.
pub(super) fn long_architecture(architecture: &str) -> Option<String> {
    let lines = architecture.lines().count();
    (lines > ARCHITECTURE_LINES)
        .then(|| format!("ARCHITECTURE.md: {lines} lines, {ARCHITECTURE_LINES} at most"))
}

/// The glossary stays short enough to learn. Its rows follow the line under the head of the table.
pub(super) fn long_glossary(glossary: &str) -> Option<String> {
    let rows = glossary.lines().skip_while(|line| !line.starts_with("|--")).skip(1);
    let words = rows.filter(|line| line.starts_with('|')).count();
    (words > GLOSSARY_WORDS).then(|| format!("docs/glossary.md: {words} words, {GLOSSARY_WORDS} at most"))
}

/// Lines of the changelog that repeat an earlier line, as merges by union leave them. Headings repeat in each version.
pub(super) fn repeated_changes(changelog: &str) -> Vec<String> {
    let mut seen = HashMap::new();
    let mut findings = Vec::new();
    let lines = changelog.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    for (index, line) in lines {
        if let Some(earlier) = seen.insert(line, index + 1) {
            findings.push(format!("CHANGELOG.md:{}: repeats line {earlier}", index + 1));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(paths: &[&str]) -> Vec<String> {
        paths.iter().map(|&path| path.to_owned()).collect()
    }

    #[test]
    fn stray_lua_is_found() {
        let paths = owned(&["crates/leasehold-proto/scripts/fair/acquire.lua", "crates/leasehold/src/x.lua"]);
        assert_eq!(stray_lua(&paths).len(), 1);
    }

    #[test]
    fn decisions_are_numbered_once() {
        let good =
            ["docs/decisions/0001-a.md", "docs/decisions/0002-b.md", "docs/decisions/README.md", "docs/x.md"];
        assert!(decision_numbers(&owned(&good)).is_empty());
        let bad = ["docs/decisions/0001-a.md", "docs/decisions/0001-b.md", "docs/decisions/12-c.md"];
        assert_eq!(decision_numbers(&owned(&bad)).len(), 2);
    }

    #[test]
    fn the_glossary_may_have_40_words() {
        let page = |words: usize| format!("# Glossary\n\n| word |\n|---|\n{}", "| lock |\n".repeat(words));
        assert!(long_glossary(&page(40)).is_none() && long_glossary(&page(41)).is_some());
    }

    #[test]
    fn a_change_is_listed_once() {
        let changes = "## 2\n\n### Added\n\n- a\n- b\n\n## 1\n\n### Added\n\n- c\n";
        assert!(repeated_changes(changes).is_empty());
        assert_eq!(repeated_changes(&format!("{changes}- b\n")), ["CHANGELOG.md:13: repeats line 6"]);
    }

    #[test]
    fn the_architecture_page_may_have_150_lines() {
        assert!(long_architecture(&"a\n".repeat(150)).is_none());
        assert!(long_architecture(&"a\n".repeat(151)).is_some());
    }
}
