//! The rules for promises: each promise has a test, and the tests that the page names exist.
//!
//! Invariant: a row of the table in `docs/verification.md` begins with its id and names tests in backticks. The
//! sentence of an id in `docs/guarantees.md` begins with the id and a colon, or with the id of one letter in bold and a
//! comma.

use std::collections::HashSet;

use super::source::Source;
use super::tokens::{Kind, Token, after_attributes, begin_with, group_length};

/// The ids of all promises.
const PROMISED: [&str; 66] = [
    "M", "L", "E", "G1", "G2", "G3", "G4", "G5", "G6", "L1", "L2", "L3", "L4", "L5", "L6", "R1", "R2", "R3",
    "D1", "D2", "D3", "D4", "F", "F1", "F2", "F3", "F4", "F5", "F6", "W1", "W2", "W3", "W4", "W5", "W6",
    "W7", "W8", "T1", "T2", "T3", "S1", "S2", "S3", "S4", "P1", "P2", "P3", "P4", "P5", "K1", "K2", "K3",
    "K4", "M1", "M2", "M3", "Q1", "Q2", "Q3", "Q4", "H1", "E1", "E2", "E3", "E4", "E5",
];

/// The macros that turn each listed name into a test, as `#[test]` does for one function.
const LISTS: [&str; 3] = ["on_both", "on_each_server", "behaviors"];

/// Ids without a row, rows without a test, and names that are no test.
pub(super) fn untested(page: &str, tests: &HashSet<String>) -> Vec<String> {
    let rows: Vec<(&str, Vec<&str>)> = page.lines().filter_map(row).collect();
    let mut findings = Vec::new();
    for id in PROMISED {
        if !rows.iter().any(|(row, tests)| *row == id && !tests.is_empty()) {
            findings.push(format!("docs/verification.md: no test for {id}"));
        }
    }
    for (id, named) in rows {
        let missing = named.into_iter().filter(|test| !tests.contains(*test));
        findings
            .extend(missing.map(|test| format!("docs/verification.md: {id} names {test}, which is no test")));
    }
    findings
}

/// Ids that the page of guarantees does not state, and ids on it without a row of tests.
pub(super) fn unstated(page: &str) -> Vec<String> {
    let stated: HashSet<&str> = page.split_whitespace().filter_map(id).collect();
    let missing = PROMISED.iter().filter(|id| !stated.contains(*id));
    let mut findings: Vec<String> =
        missing.map(|id| format!("docs/guarantees.md: does not state {id}")).collect();
    let untested = stated.iter().filter(|id| !PROMISED.contains(id));
    findings.extend(untested.map(|id| format!("docs/guarantees.md: states {id}, which has no tests")));
    findings.sort();
    findings
}

/// Returns the id that begins a sentence: `**M,` or `G1:`.
fn id(word: &str) -> Option<&str> {
    let letter = word.strip_prefix("**").and_then(|word| word.strip_suffix(',')).filter(|id| id.len() == 1);
    let numbered = || {
        let id = word.strip_suffix(':')?;
        let mut letters = id.chars();
        (letters.next()?.is_ascii_uppercase() && letters.next()?.is_ascii_digit() && letters.next().is_none())
            .then_some(id)
    };
    letter.or_else(numbered)
}

/// Returns the id of a row and the tests that it names: words in backticks that look like a test's name.
fn row(line: &str) -> Option<(&str, Vec<&str>)> {
    let mut cells = line.strip_prefix("| ")?.split(" | ");
    let id = cells.next()?.trim();
    let tests = cells.nth(1)?.split('`').skip(1).step_by(2).filter(|word| word.matches('_').count() > 2);
    PROMISED.contains(&id).then(|| (id, tests.collect()))
}

/// Returns the names of all tests.
pub(super) fn all_tests(sources: &[Source]) -> HashSet<String> {
    sources.iter().flat_map(tests).collect()
}

/// Returns the tests of a file: functions with a test attribute, and names in the lists of test macros.
fn tests(source: &Source) -> Vec<String> {
    const ATTRIBUTES: [&[&str]; 3] = [
        &["#", "[", "test", "]"],
        &["#", "[", "tokio", "::", "test", "]"],
        &["#", "[", "tokio", "::", "test", "("],
    ];
    let code = source.all_code();
    let found = (0..code.len()).flat_map(|at| {
        let rest = &code[at..];
        if ATTRIBUTES.iter().any(|attribute| begin_with(rest, attribute)) {
            function(rest).into_iter().collect()
        } else if LISTS.contains(&rest[0].text) && begin_with(&rest[1..], &["!"]) {
            listed(&rest[2..])
        } else {
            Vec::new()
        }
    });
    found.map(str::to_owned).collect()
}

/// Returns the name of the function that tokens begin with, after its attributes and qualifiers.
fn function<'a>(tokens: &[Token<'a>]) -> Option<&'a str> {
    let mut tokens = after_attributes(tokens);
    for qualifier in [&["pub", "(", "crate", ")"][..], &["pub"], &["async"]] {
        if begin_with(tokens, qualifier) {
            tokens = &tokens[qualifier.len()..];
        }
    }
    let name = tokens.get(1).filter(|name| begin_with(tokens, &["fn"]) && name.kind == Kind::Word);
    name.map(|name| name.text)
}

/// Returns the names in the first bracket, each followed by a comma.
fn listed<'a>(tokens: &[Token<'a>]) -> Vec<&'a str> {
    let pairs = tokens[..group_length(tokens)].windows(2);
    let names = pairs.filter(|pair| pair[0].kind == Kind::Word && pair[1].text == ",");
    names.map(|pair| pair[0].text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source<'_> {
        Source::new("crates/leasehold/tests/a.rs", text).unwrap()
    }

    #[test]
    fn a_test_is_a_function_with_a_test_attribute() {
        let text = "#[test]\nfn plain() {}\n#[tokio::test(flavor = \"multi_thread\")]\n#[cfg(unix)]\nasync fn slow() {}\n\
                    fn helper() {}\n// #[test]\n// fn retired() {}\nlet x = \"#[test] fn text() {}\";\n\
                    $(#[tokio::test] async fn $name() {})+\n";
        assert_eq!(tests(&source(text)), ["plain", "slow"]);
    }

    #[test]
    fn only_lists_of_test_macros_count_as_tests() {
        let text = "on_both! {\n    async {\n        one_test,\n        another_test, // not_this,\n    }\n    \
                    sync { plain_test, }\n}\nbehaviors! { a_behavior, }\ncases! { no_test, }\n\
                    async fn unlisted(server: Place) {}\n";
        assert_eq!(tests(&source(text)), ["one_test", "another_test", "plain_test", "a_behavior"]);
    }

    #[test]
    fn a_row_names_its_tests() {
        let line = "| L4 | as `lost()` says | `one_two_three_four` `five` |";
        assert_eq!(row(line), Some(("L4", vec!["one_two_three_four"])));
        assert_eq!(row("| model | of | `one_two_three_four` |"), None);
    }

    #[test]
    fn an_id_without_a_statement_and_a_statement_without_tests_are_found() {
        let page: String = PROMISED
            .iter()
            .map(|id| {
                if id.len() == 1 {
                    format!("- **{id}, a promise.** More\n")
                } else {
                    format!("{id}: it holds. ")
                }
            })
            .collect();
        assert_eq!(unstated(&page), Vec::<String>::new());
        assert_eq!(unstated(&page.replace("G1: ", "")), ["docs/guarantees.md: does not state G1"]);
        let more = format!("{page}Z9: it holds. See A1, (B2) and Note: text");
        assert_eq!(unstated(&more), ["docs/guarantees.md: states Z9, which has no tests"]);
    }

    #[test]
    fn missing_ids_and_missing_tests_are_found() {
        let rows: String = PROMISED.iter().map(|id| format!("| {id} | what | `a_test_of_it` |\n")).collect();
        let real = all_tests(&[source("#[test]\nfn a_test_of_it() {}")]);
        assert_eq!(untested(&rows, &real), Vec::<String>::new());
        let helper = all_tests(&[source("fn a_test_of_it() {}")]);
        assert_eq!(untested(&rows, &helper).len(), PROMISED.len());
        assert_eq!(untested(&rows.replace("| D4 |", "| D5 |"), &real).len(), 1);
    }
}
