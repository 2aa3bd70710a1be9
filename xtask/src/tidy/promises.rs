//! Every promise has a test, and the page that says so tells the truth.
//!
//! Invariant: a row of the table in `docs/verification.md` begins with its id and names tests in backticks.
//! Called by: [`check`](super::check).

use std::collections::HashSet;

/// The promises that the primitives of today make.
const PROMISED: [&str; 61] = [
    "M", "L", "E", "G1", "G2", "G3", "G4", "G5", "G6", "L1", "L2", "L3", "L4", "L5", "L6", "R1", "R2", "R3",
    "D1", "D2", "D3", "D4", "F", "F1", "F2", "F3", "F4", "F5", "F6", "W1", "W2", "W3", "W4", "W5", "W6",
    "W7", "W8", "T1", "T2", "T3", "S1", "S2", "S3", "S4", "P1", "P2", "P3", "P4", "P5", "K1", "K2", "K3",
    "K4", "M1", "M2", "M3", "Q1", "Q2", "Q3", "Q4", "H1",
];

/// Ids without a row, rows without a test, and tests that do not exist.
pub(super) fn untested(page: &str, sources: &[String]) -> Vec<String> {
    let functions: HashSet<&str> = sources.iter().flat_map(|text| functions(text)).collect();
    let rows: Vec<(&str, Vec<&str>)> = page.lines().filter_map(row).collect();
    let mut findings = Vec::new();
    for id in PROMISED {
        if !rows.iter().any(|(row, tests)| *row == id && !tests.is_empty()) {
            findings.push(format!("docs/verification.md: no test for {id}"));
        }
    }
    for (id, tests) in rows {
        let missing = tests.into_iter().filter(|test| !functions.contains(test));
        findings.extend(
            missing.map(|test| format!("docs/verification.md: {id} names {test}, which does not exist")),
        );
    }
    findings
}

/// The id of a row, and the tests that it names: words in backticks that look like a test's name.
fn row(line: &str) -> Option<(&str, Vec<&str>)> {
    let mut cells = line.strip_prefix("| ")?.split(" | ");
    let id = cells.next()?.trim();
    let tests = cells.nth(1)?.split('`').skip(1).step_by(2).filter(|word| word.matches('_').count() > 2);
    PROMISED.contains(&id).then(|| (id, tests.collect()))
}

fn functions(text: &str) -> impl Iterator<Item = &str> {
    text.split("fn ").skip(1).filter_map(|rest| rest.split_once(['(', '<']).map(|(name, _)| name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_its_name_with_and_without_types() {
        let names: Vec<_> = functions("fn plain() {} async fn generic<S: Store>(bench: &S) {}").collect();
        assert_eq!(names, ["plain", "generic"]);
    }

    #[test]
    fn a_row_names_its_tests() {
        let line = "| L4 | as `lost()` says | `one_two_three_four` `five` |";
        assert_eq!(row(line), Some(("L4", vec!["one_two_three_four"])));
        assert_eq!(row("| model | of | `one_two_three_four` |"), None);
    }

    #[test]
    fn missing_ids_and_missing_tests_are_found() {
        let rows: String = PROMISED.iter().map(|id| format!("| {id} | what | `a_test_of_it` |\n")).collect();
        let source = vec!["fn a_test_of_it() {}".to_owned()];
        assert_eq!(untested(&rows, &source), Vec::<String>::new());
        assert_eq!(untested(&rows, &[]).len(), PROMISED.len());
        assert_eq!(untested(&rows.replace("| D4 |", "| D5 |"), &source).len(), 1);
    }
}
