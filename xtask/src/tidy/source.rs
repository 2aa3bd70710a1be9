//! The files of the checkout, and a Rust file as the rules see it.
//!
//! Invariant: paths are relative to the root and have forward slashes.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::lexer::{Kind, classify, only};

/// The crates whose `src` follows the rules of libraries. The others are programs and test code.
const LIBRARIES: [&str; 4] = ["leasehold-proto", "leasehold-store", "leasehold", "leasehold-macros"];

/// A Rust file.
pub(super) struct Source {
    pub(super) path: String,
    code: String,
    text: String,
    comment: String,
    header: String,
    tests_from: usize,
}

/// A line of prose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line<'a> {
    pub(super) number: usize,
    /// The mark that lines of one comment share. A comment after code has none, because it stands alone.
    pub(super) mark: Option<&'static str>,
    pub(super) text: &'a str,
}

impl Source {
    pub(super) fn new(path: &str, source: &str) -> Self {
        let kinds = classify(source);
        let code = only(Kind::Code, source, &kinds);
        let tests_from = if is_test_file(path) { 0 } else { unit_tests_line(&code) };
        let header = source.lines().skip_while(|line| line.starts_with("#!["));
        let header = header.take_while(|line| line.starts_with("//!"));
        let header = header.flat_map(|line| [line, "\n"]).collect();
        let [text, comment] = [Kind::Text, Kind::Comment].map(|kind| only(kind, source, &kinds));
        Self { path: path.to_owned(), code, text, comment, header, tests_from }
    }

    /// Returns true if the code before the unit tests is code of a library.
    pub(super) fn is_library(&self) -> bool {
        LIBRARIES.iter().any(|name| self.path.starts_with(&format!("crates/{name}/src/")))
    }

    /// The lines of the comment that the file begins with. Attributes of one line may precede it.
    pub(super) fn header(&self) -> impl Iterator<Item = &str> {
        self.header.lines()
    }

    /// The code without comments, texts and unit tests, by numbered lines.
    pub(super) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        numbered(&self.code).take(self.tests_from)
    }

    /// The code of tests without comments and texts, by numbered lines.
    pub(super) fn tests(&self) -> impl Iterator<Item = (usize, &str)> {
        numbered(&self.code).skip(self.tests_from)
    }

    /// The code of both.
    pub(super) fn all_code(&self) -> impl Iterator<Item = (usize, &str)> {
        numbered(&self.code)
    }

    /// The contents of strings outside tests, by numbered lines.
    pub(super) fn texts(&self) -> impl Iterator<Item = (usize, &str)> {
        numbered(&self.text).take(self.tests_from)
    }

    /// The lines of all comments with slashes.
    pub(super) fn comments(&self) -> impl Iterator<Item = Line<'_>> {
        self.comment.lines().zip(numbered(&self.code)).filter_map(|(line, (number, code))| {
            let line = line.trim();
            let mark = ["//!", "///", "//"].into_iter().find(|mark| line.starts_with(mark))?;
            let text = line[mark.len()..].trim();
            Some(Line { number, mark: code.trim().is_empty().then_some(mark), text })
        })
    }

    /// The number of lines of code. Unit tests at the bottom do not count, but all lines of a test file do.
    pub(super) fn length(&self) -> usize {
        let is_blank = |(_, line): &(usize, &str)| line.trim().is_empty();
        let limit = if self.tests_from == 0 { usize::MAX } else { self.tests_from };
        numbered(&self.code).take(limit).filter(|line| !is_blank(line)).count()
    }

    /// Formats a finding in this file.
    pub(super) fn finding(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}", self.path)
    }
}

/// Returns true for the characters of identifiers.
pub(super) fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The lines of a text with their numbers.
pub(super) fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

fn is_test_file(path: &str) -> bool {
    path.contains("/tests/")
        || path.ends_with("/tests.rs")
        || path.starts_with("crates/leasehold-testkit/src/contract")
}

/// The number of lines before the unit tests of a file.
fn unit_tests_line(code: &str) -> usize {
    let lines: Vec<_> = code.lines().map(str::trim).collect();
    let begins = |index: usize| {
        lines[index] == "#[cfg(test)]"
            && lines[index..]
                .iter()
                .find(|line| !line.starts_with("#["))
                .is_some_and(|line| line.starts_with("mod ") && line.ends_with('{'))
    };
    (0..lines.len()).find(|&index| begins(index)).unwrap_or(usize::MAX)
}

/// The paths of all files, sorted, without build output and hidden files.
pub(super) fn walk(root: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(root.join(&folder)).with_context(|| format!("cannot list {folder:?}"))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') || name == "target" {
                continue;
            }
            if entry.file_type()?.is_dir() {
                folders.push(format!("{folder}{name}/"));
            } else {
                files.push(format!("{folder}{name}"));
            }
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// The text of a file.
pub(super) fn read(root: &Path, path: &str) -> Result<String> {
    fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "fn a() {}\n\n// b\n#[cfg(test)]\nmod tests {\n    fn c() {}\n}\n";

    #[test]
    fn unit_tests_are_told_from_code() {
        let source = Source::new("crates/leasehold/src/a.rs", SOURCE);
        assert_eq!(source.code().filter(|(_, line)| line.contains("fn")).count(), 1);
        assert_eq!(source.tests().find(|(_, line)| line.contains("fn")), Some((6, "    fn c() {}")));
        assert_eq!(source.length(), 1);
    }

    #[test]
    fn a_test_file_is_all_tests_and_all_of_it_counts() {
        let source = Source::new("crates/leasehold/tests/a.rs", SOURCE);
        assert_eq!((source.code().count(), source.length()), (0, 5));
    }

    #[test]
    fn comments_have_their_mark_unless_they_follow_code() {
        let source = Source::new("a.rs", "//! A.\nlet x = \"// b\"; // C.\n    /// D.\n    //\n");
        let lines = [
            Line { number: 1, mark: Some("//!"), text: "A." },
            Line { number: 2, mark: None, text: "C." },
            Line { number: 3, mark: Some("///"), text: "D." },
            Line { number: 4, mark: Some("//"), text: "" },
        ];
        assert_eq!(source.comments().collect::<Vec<_>>(), lines);
    }

    #[test]
    fn a_test_helper_in_the_middle_does_not_end_the_code() {
        let source = Source::new("crates/leasehold/src/a.rs", "#[cfg(test)]\nmod fake;\nfn a() {}\n");
        assert_eq!(source.code().count(), 3);
    }
}
