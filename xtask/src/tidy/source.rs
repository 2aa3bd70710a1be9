//! The files of the checkout, and a Rust file as the rules see it.
//!
//! Invariant: paths are relative to the root and have forward slashes. Each file is read once.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::tokens::{self, Token, after_attributes, begin_with};

/// The extensions of the files whose texts the rules read.
const TEXTS: [&str; 4] = [".rs", ".lua", ".md", ".toml"];

/// The crates whose `src` follows the rules of libraries. The others are programs and test code.
const LIBRARIES: [&str; 4] = ["leasehold-proto", "leasehold-store", "leasehold", "leasehold-macros"];

/// The paths of all files, sorted, and the texts that the rules read.
pub(super) struct Checkout {
    pub(super) paths: Vec<String>,
    texts: BTreeMap<String, String>,
}

/// A Rust file.
pub(super) struct Source<'a> {
    pub(super) path: &'a str,
    text: &'a str,
    tokens: Vec<Token<'a>>,
    /// The number of tokens before the unit tests.
    before_tests: usize,
    /// The text with a blank for each byte of a token.
    comments: String,
}

/// A line of prose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line<'a> {
    pub(super) number: usize,
    /// The mark that lines of one comment share. A comment after code has none, because it stands alone.
    pub(super) mark: Option<&'static str>,
    pub(super) text: &'a str,
}

impl Checkout {
    /// Reads the files, without build output and hidden files.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let paths = walk(root)?;
        let is_text = |path: &&String| TEXTS.iter().any(|extension| path.ends_with(extension));
        let read = |path: &String| {
            let text = fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))?;
            Ok((path.clone(), text))
        };
        let texts = paths.iter().filter(is_text).map(read).collect::<Result<_>>()?;
        Ok(Self { paths, texts })
    }

    /// Returns the text of a file.
    pub(super) fn text(&self, path: &str) -> Result<&str> {
        self.texts.get(path).map(String::as_str).with_context(|| format!("{path} is missing"))
    }

    /// Returns the paths and texts of the files that a rule chooses.
    pub(super) fn texts(&self, is_chosen: impl Fn(&str) -> bool) -> impl Iterator<Item = (&str, &str)> {
        let texts = self.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()));
        texts.filter(move |(path, _)| is_chosen(path))
    }
}

impl<'a> Source<'a> {
    /// Reads the tokens of a file. The error names the place that is no Rust.
    pub(super) fn new(path: &'a str, text: &'a str) -> Result<Self> {
        let tokens = tokens::read(text).map_err(|error| error.context(format!("{path} is no Rust")))?;
        let before_tests = if is_test_file(path) { 0 } else { before_unit_tests(&tokens) };
        let mut comments = text.as_bytes().to_vec();
        for token in &tokens {
            for line in comments[token.start..][..token.text.len()].split_mut(|byte| *byte == b'\n') {
                line.fill(b' ');
            }
        }
        let comments = String::from_utf8(comments)?;
        Ok(Self { path, text, tokens, before_tests, comments })
    }

    /// Returns true if the code before the unit tests is code of a library.
    pub(super) fn is_library(&self) -> bool {
        LIBRARIES.iter().any(|name| self.path.starts_with(&format!("crates/{name}/src/")))
    }

    /// Returns the lines of the comment that the file begins with. Attributes of one line may precede it.
    pub(super) fn header(&self) -> impl Iterator<Item = &str> {
        let lines = self.text.lines().skip_while(|line| line.starts_with("#!["));
        lines.take_while(|line| line.starts_with("//!"))
    }

    /// Returns the code without the unit tests.
    pub(super) fn code(&self) -> &[Token<'a>] {
        &self.tokens[..self.before_tests]
    }

    /// Returns the code of tests.
    pub(super) fn tests(&self) -> &[Token<'a>] {
        &self.tokens[self.before_tests..]
    }

    /// Returns the code of both.
    pub(super) fn all_code(&self) -> &[Token<'a>] {
        &self.tokens
    }

    /// Returns the contents of strings outside tests, by numbered lines.
    pub(super) fn strings(&self) -> impl Iterator<Item = (usize, &'a str)> {
        let strings = self.code().iter().filter_map(|token| Some((token.line, token.string()?)));
        strings.flat_map(|(first, string)| (first..).zip(string.lines()))
    }

    /// Returns the lines of all comments with slashes.
    pub(super) fn comments(&self) -> impl Iterator<Item = Line<'_>> {
        let with_code = lines_of(self.all_code());
        numbered(&self.comments).filter_map(move |(number, line)| {
            let line = line.trim();
            let mark = ["//!", "///", "//"].into_iter().find(|mark| line.starts_with(mark))?;
            let text = line[mark.len()..].trim();
            Some(Line { number, mark: (with_code.binary_search(&number).is_err()).then_some(mark), text })
        })
    }

    /// Returns the number of lines of code. Unit tests at the bottom do not count, but all lines of a test file do.
    pub(super) fn length(&self) -> usize {
        lines_of(if self.before_tests == 0 { &self.tokens } else { self.code() }).len()
    }

    /// Formats a finding in this file.
    pub(super) fn finding(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}", self.path)
    }
}

/// Returns the lines of a text with their numbers.
pub(super) fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

fn is_test_file(path: &str) -> bool {
    path.contains("/tests/")
        || path.ends_with("/tests.rs")
        || path.starts_with("crates/leasehold-testkit/src/contract")
}

/// Returns the lines that tokens begin and end on, in ascending order. The other lines of a string are text.
fn lines_of(tokens: &[Token]) -> Vec<usize> {
    let mut lines: Vec<usize> = tokens.iter().flat_map(|token| [token.line, token.last_line()]).collect();
    lines.dedup();
    lines
}

/// Returns the number of tokens before the unit tests of a file.
fn before_unit_tests(tokens: &[Token]) -> usize {
    let begins = |at: &usize| {
        let tokens = &tokens[*at..];
        begin_with(tokens, &["#", "[", "cfg", "(", "test", ")", "]"]) && {
            let module = after_attributes(tokens);
            begin_with(module, &["mod"]) && module.get(2).is_some_and(|token| token.text == "{")
        }
    };
    (0..tokens.len()).find(begins).unwrap_or(tokens.len())
}

/// Returns the paths of all files, sorted.
fn walk(root: &Path) -> Result<Vec<String>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "fn a() {}\n\n// b\n#[cfg(test)]\nmod tests {\n    fn c() {}\n}\n";

    #[test]
    fn unit_tests_are_distinguished_from_code() {
        let source = Source::new("crates/leasehold/src/a.rs", SOURCE).unwrap();
        let lines = |tokens: &[Token]| {
            let functions = tokens.iter().filter(|token| token.text == "fn");
            functions.map(|token| token.line).collect::<Vec<_>>()
        };
        assert_eq!((lines(source.code()), lines(source.tests())), (vec![1], vec![6]));
        assert_eq!(source.length(), 1);
    }

    #[test]
    fn a_test_file_is_all_tests_and_all_of_it_counts() {
        let source = Source::new("crates/leasehold/tests/a.rs", SOURCE).unwrap();
        assert_eq!((source.code().len(), source.length()), (0, 5));
    }

    #[test]
    fn comments_have_their_mark_unless_they_follow_code() {
        let source = Source::new("a.rs", "//! A.\nlet x = \"// b\"; // C.\n    /// D.\n    //\n").unwrap();
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
        let source =
            Source::new("crates/leasehold/src/a.rs", "#[cfg(test)]\nmod fake;\nfn a() {}\n").unwrap();
        assert!(source.tests().is_empty());
    }
}
