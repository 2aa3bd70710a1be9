//! The rules for the ledger of bugs: its rows name tests that run and code that exists, and no row repeats another.
//!
//! Invariant: a row of `docs/ledger.md` has five cells: id, bug, finder, the command that shows it, and the place of
//! the fix, as files and the items in them.

use std::collections::{HashMap, HashSet};

use super::source::Source;

/// Rows whose command runs no test, or whose fix names code that does not exist.
pub(super) fn stale(
    ledger: &str,
    tests: &HashSet<String>,
    sources: &[Source],
    paths: &[String],
) -> Vec<String> {
    let mut findings = Vec::new();
    for [id, _, _, command, fix] in ledger.lines().filter_map(row) {
        let mut finding = |what: String| findings.push(format!("docs/ledger.md: row {id} {what}"));
        if let Some(filter) = quoted(command).find_map(filter)
            && !runs_something(filter, tests, paths)
        {
            finding(format!("runs {filter}, which is no test"));
        }
        let mut file = None;
        for word in quoted(fix) {
            let is_path = word.ends_with(".rs") || word.ends_with(".lua");
            if is_path && !paths.iter().any(|path| path.ends_with(&format!("/{word}"))) {
                finding(format!("names the file {word}, which does not exist"));
            } else if is_path {
                file = Some(word);
            } else if let Some(file) = file
                && !is_in(word, file, sources)
            {
                finding(format!("names {word}, which is not in {file}"));
            }
        }
    }
    findings
}

/// Rows that have the id or the content of an earlier row, as merges by union leave them.
pub(super) fn repeated(ledger: &str) -> Vec<String> {
    let mut ids = HashSet::new();
    let mut contents = HashMap::new();
    let mut findings = Vec::new();
    for [id, content @ ..] in ledger.lines().filter_map(row) {
        if !ids.insert(id) {
            findings.push(format!("docs/ledger.md: two rows have the id {id}"));
        } else if let Some(other) = contents.insert(content, id) {
            findings.push(format!("docs/ledger.md: row {id} repeats row {other}"));
        }
    }
    findings
}

/// Returns the cells of a row that has an id.
fn row(line: &str) -> Option<[&str; 5]> {
    let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
    let cells: [&str; 5] = cells.try_into().ok()?;
    cells[0].parse::<u32>().is_ok().then_some(cells)
}

/// Returns the filter that a command passes to the test program, if it runs tests.
fn filter(command: &str) -> Option<&str> {
    let words: Vec<&str> = command.split(' ').collect();
    let is_test = words.starts_with(&["cargo", "test"]);
    words.last().copied().filter(|word| is_test && !word.starts_with('-'))
}

/// Returns true if a filter selects a test. The filter names a test, a part of its name, or a module.
fn runs_something(filter: &str, tests: &HashSet<String>, paths: &[String]) -> bool {
    match filter.rsplit("::").find(|part| !part.is_empty()) {
        Some(module) if filter.ends_with("::") => {
            paths.iter().any(|path| path.ends_with(&format!("/{module}.rs")))
        }
        Some(name) => tests.iter().any(|test| test.contains(name)),
        None => false,
    }
}

/// Returns true if the code of a file contains the name of an item, such as `Type::method`.
fn is_in(item: &str, file: &str, sources: &[Source]) -> bool {
    let name = item.rsplit("::").next().unwrap_or(item);
    let mut files = sources.iter().filter(|source| source.path.ends_with(&format!("/{file}")));
    files.any(|source| source.all_code().iter().any(|token| token.text == name))
}

/// Returns the words between backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(command: &str, fix: &str) -> Vec<String> {
        let tests = HashSet::from(["a_lock_is_free".to_owned()]);
        let path = "crates/leasehold/src/engine/waits/queue.rs";
        let sources = [Source::new(path, "fn verdict() {} // forgotten").unwrap()];
        let paths = [path.to_owned(), "crates/leasehold-proto/scripts/renew.lua".to_owned()];
        stale(&format!("| 7 | a bug | review | {command} | {fix} |\n"), &tests, &sources, &paths)
    }

    #[test]
    fn an_id_and_a_content_occur_once() {
        let row = "| 7 | a bug | review | `a` | `b.rs` |\n";
        assert_eq!(
            repeated(&format!("| id | bug | by | a | b |\n{row}{}", row.replace("`a`", "`c`"))).len(),
            1
        );
        assert_eq!(
            repeated(&format!("{row}{}", row.replace('7', "8"))),
            ["docs/ledger.md: row 8 repeats row 7"]
        );
        assert!(repeated(&row.replace('7', "8").replace("`a`", "`c`")).is_empty());
    }

    #[test]
    fn a_correct_row_passes() {
        let fix = "`engine/waits/queue.rs`, `Queue::verdict`; `renew.lua`";
        for command in [
            "`cargo test -p leasehold --test lock a_lock_is_free`",
            "`cargo test -p leasehold --test lock redis::a_lock_is`",
            "`cargo test -p leasehold --test lock queue::`",
            "`cargo x mutants subscribing`",
        ] {
            assert_eq!(findings(command, fix), Vec::<String>::new(), "{command}");
        }
    }

    #[test]
    fn missing_tests_files_and_items_are_found() {
        let command = "`cargo test -p leasehold --test lock a_lock_is_free`";
        assert!(
            findings("`cargo test -p x a_lock_was`", "`engine/waits/queue.rs`")[0].contains("a_lock_was")
        );
        assert!(findings("`cargo test -p x line::`", "`engine/waits/queue.rs`")[0].contains("line::"));
        assert!(findings(command, "`engine/line.rs`")[0].contains("engine/line.rs"));
        assert!(findings(command, "`engine/waits/queue.rs`, `forgotten`")[0].contains("forgotten"));
    }
}
