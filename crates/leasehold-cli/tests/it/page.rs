//! Tests that compare the page of the command with the program.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

fn page() -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/command.md");
    std::fs::read_to_string(docs).unwrap()
}

fn leasehold() -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    program.env_clear();
    program
}

fn help() -> String {
    String::from_utf8(leasehold().args(["run", "--help"]).output().unwrap().stdout).unwrap()
}

/// Returns the long options among the words of a text.
fn options(text: &str) -> BTreeSet<&str> {
    let inside = |letter: char| letter.is_ascii_lowercase() || letter == '-';
    let words = text.split(|letter: char| !inside(letter));
    words.filter(|word| word.len() > 2 && word.starts_with("--") && !word.ends_with('-')).collect()
}

/// Returns the part of the page under a heading.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    rest.split_once("\n## ").map_or(rest, |(section, _)| section)
}

#[test]
fn the_page_lists_exactly_the_options_of_the_program() {
    let (page, help) = (page(), help());
    let (_, listed) = help.split_once("Options:").unwrap();
    let (listed, _) = listed.split_once("\n\n").unwrap();
    let mut of_program = options(listed);
    assert!(of_program.remove("--help"));
    let table: String = section(&page, "Options").lines().filter(|line| line.starts_with("| `-")).collect();
    assert_eq!(options(&table), of_program);
}

#[test]
fn every_exit_code_of_the_help_is_on_the_page() {
    let (page, help) = (page(), help());
    let codes = section(&page, "Exit status");
    let (_, told) = help.split_once("Exit codes:").unwrap();
    for line in told.lines().take_while(|line| !line.contains("Examples:")) {
        let first = line.split_whitespace().next().unwrap_or_default();
        if first.starts_with(|letter: char| letter.is_ascii_digit()) {
            assert!(codes.contains(first), "{first} of {line:?}");
        }
    }
    assert!(codes.contains("| 79 |"));
}

#[test]
fn the_program_accepts_the_commands_of_the_examples() {
    let page = page();
    let examples = section(&page, "Examples");
    let mut seen = 0;
    for line in examples.lines().filter(|line| line.contains("leasehold run ")) {
        for call in line.split("leasehold run ").skip(1) {
            let (arguments, _) = call.split_once(" -- ").unwrap();
            // The program parses everything and then misses a configuration file, so it connects to no server.
            let mut program = leasehold();
            program.args(["run", "--config", "/nowhere/a.toml"]).args(arguments.split_whitespace());
            let output = program.args(["--", "true"]).output().unwrap();
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(told.contains("cannot be read"), "{line:?}: {told}");
            seen += 1;
        }
    }
    assert!(seen >= 7, "{seen} examples");
}

#[test]
fn the_example_file_is_a_valid_configuration() {
    let page = page();
    let (_, toml) = page.split_once("```toml\n").unwrap();
    let (toml, _) = toml.split_once("```").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (password, file) = (folder.path().join("password"), folder.path().join("leasehold.toml"));
    std::fs::write(&password, "secret\n").unwrap();
    std::fs::write(&file, toml.replace("/etc/import/redis-password", password.to_str().unwrap())).unwrap();
    let output = leasehold().args(["config", "check"]).arg(&file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
