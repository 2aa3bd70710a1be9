//! The rules for prose: a comment begins with a noun or a verb, and a text names its actors.
//!
//! Invariant: code blocks and code spans are no prose.
//!
//! # How it works
//! Comments form paragraphs, and each paragraph that begins with a letter counts as one comment. The words of a crate
//! are the words of its comments and its messages. Messages are the strings outside tests that look like a sentence.

use std::collections::BTreeMap;

use super::source::{Line, Source, numbered};

/// The words that a comment does not begin with, because they open a clause instead of naming an item or an action.
const CLAUSES: [&str; 8] = ["What", "Who", "How", "Of", "For", "Whether", "Until", "No"];
/// The indefinite pronouns of one word, which hide an actor.
const PRONOUNS: [&str; 10] = [
    "whoever",
    "whomever",
    "whom",
    "somebody",
    "someone",
    "nobody",
    "anybody",
    "anyone",
    "everybody",
    "everyone",
];
/// The indefinite pronouns of two words.
const PAIRS: [[&str; 2]; 3] = [["no", "one"], ["those", "who"], ["one", "who"]];

/// The largest share of comments that begin with a word of [`CLAUSES`], in percent.
const CLAUSES_MAX: usize = 8;
/// The largest number of indefinite pronouns in 1,000 words.
const PRONOUNS_MAX: usize = 1;
/// The number of places that a finding lists.
const LISTED: usize = 5;

/// The lines of a script's header that have a fixed form.
const SCRIPT_HEADER: [&str; 5] = ["KEYS[", "ARGV[", "returns ", "calls ", "wire "];

/// The figures of one crate or one page.
#[derive(Default)]
pub(super) struct Voice {
    name: String,
    words: usize,
    /// The number of comments, which pages do not have.
    comments: usize,
    /// The places of the comments that begin with a word of [`CLAUSES`].
    clauses: Vec<String>,
    /// The places of the indefinite pronouns.
    pronouns: Vec<String>,
}

/// Measures each crate: its Rust files, and its scripts as pairs of path and text.
pub(super) fn of_crates(sources: &[Source], scripts: &[(&str, &str)]) -> Vec<Voice> {
    let mut crates: BTreeMap<&str, Voice> = BTreeMap::new();
    for source in sources {
        if let Some(name) = crate_of(source.path) {
            let voice = crates.entry(name).or_insert_with(|| Voice::new(name));
            voice.add_comments(source.path, source.comments());
            voice.add_messages(source);
        }
    }
    for (path, text) in scripts {
        if let Some(name) = crate_of(path) {
            let voice = crates.entry(name).or_insert_with(|| Voice::new(name));
            voice.add_comments(path, script_comments(text));
        }
    }
    crates.into_values().collect()
}

/// Measures a Markdown page.
pub(super) fn of_page(path: &str, text: &str) -> Voice {
    let mut voice = Voice::new(path);
    let lines = numbered(text).map(|(number, text)| Line { number, mark: Some(""), text: text.trim() });
    for paragraph in paragraphs(lines) {
        voice.add_words(path, &paragraph);
    }
    voice
}

/// Formats the figures as a table.
pub(super) fn table(voices: &[Voice]) -> Vec<String> {
    let head = format!("{:<46}{:>7}{:>17}{:>10}{:>10}", "", "words", "pronouns/1,000", "comments", "clauses");
    let rows = voices.iter().map(|voice| {
        let Voice { name, words, comments, .. } = voice;
        let row = format!("{name:<46}{words:>7}{:>17.1}", voice.pronouns_per_thousand());
        if *comments == 0 { row } else { format!("{row}{comments:>10}{:>8.1} %", voice.clauses_percent()) }
    });
    [head].into_iter().chain(rows).collect()
}

impl Voice {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Returns the broken rules, each with its figure and its worst lines.
    pub(super) fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        if self.clauses.len() * 100 > self.comments * CLAUSES_MAX {
            findings.push(format!(
                "{}: {:.1} % of the comments begin with {}, {CLAUSES_MAX} % at most: {}",
                self.name,
                self.clauses_percent(),
                CLAUSES.join(", "),
                most_frequent(&self.clauses)
            ));
        }
        if self.pronouns.len() * 1000 > self.words * PRONOUNS_MAX {
            findings.push(format!(
                "{}: {:.1} indefinite pronouns in 1,000 words, {PRONOUNS_MAX} at most: {}",
                self.name,
                self.pronouns_per_thousand(),
                most_frequent(&self.pronouns)
            ));
        }
        findings
    }

    fn clauses_percent(&self) -> f64 {
        100.0 * self.clauses.len() as f64 / self.comments.max(1) as f64
    }

    fn pronouns_per_thousand(&self) -> f64 {
        1000.0 * self.pronouns.len() as f64 / self.words.max(1) as f64
    }

    fn add_comments<'a>(&mut self, path: &str, lines: impl Iterator<Item = Line<'a>>) {
        for paragraph in paragraphs(lines) {
            if let Some((number, text)) = paragraph.first()
                && text.starts_with(char::is_alphabetic)
            {
                self.comments += 1;
                let opening = text.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
                if CLAUSES.contains(&opening) {
                    self.clauses.push(format!("{path}:{number}"));
                }
            }
            self.add_words(path, &paragraph);
        }
    }

    fn add_messages(&mut self, source: &Source) {
        for (number, message) in source.strings().filter(|(_, text)| is_message(text)) {
            self.add_words(source.path, &[(number, message)]);
        }
    }

    fn add_words(&mut self, path: &str, paragraph: &[(usize, &str)]) {
        let words = words(paragraph);
        self.words += words.len();
        self.pronouns.extend(pronouns(&words).map(|number| format!("{path}:{number}")));
    }
}

/// Returns the places that occur most, in the form `file:line`.
fn most_frequent(places: &[String]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for place in places {
        *counts.entry(place).or_default() += 1;
    }
    let mut counted: Vec<(&str, usize)> = counts.into_iter().collect();
    counted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let listed: Vec<&str> = counted.iter().take(LISTED).map(|(place, _)| *place).collect();
    listed.join(", ")
}

/// Returns the folder of the crate that a file belongs to. The folder `examples` counts as one crate.
fn crate_of(path: &str) -> Option<&str> {
    let (first, rest) = path.split_once('/')?;
    match first {
        "crates" => rest.find('/').map(|length| &path[..first.len() + 1 + length]),
        "xtask" | "fuzz" | "examples" => Some(first),
        _ => None,
    }
}

/// Returns the comments of a Lua script, without the lines of its header that have a fixed form.
fn script_comments(text: &str) -> impl Iterator<Item = Line<'_>> {
    numbered(text).filter_map(|(number, line)| {
        let text = line.trim().strip_prefix("--")?.trim();
        let is_fixed = SCRIPT_HEADER.iter().any(|start| text.starts_with(start));
        (!is_fixed).then_some(Line { number, mark: Some("--"), text })
    })
}

/// Joins adjacent lines with the same mark. An empty line ends a paragraph. Code blocks are left out.
fn paragraphs<'a>(lines: impl Iterator<Item = Line<'a>>) -> Vec<Vec<(usize, &'a str)>> {
    let mut found: Vec<Vec<(usize, &str)>> = Vec::new();
    let mut last: Option<Line> = None;
    let (mut goes_on, mut in_code) = (false, false);
    for line in lines {
        let is_adjacent = last.is_some_and(|last| {
            last.mark.is_some() && last.mark == line.mark && last.number + 1 == line.number
        });
        in_code &= is_adjacent;
        goes_on &= is_adjacent;
        if line.text.starts_with("```") {
            in_code = !in_code;
            goes_on = false;
        } else if in_code || line.text.is_empty() {
            goes_on = false;
        } else {
            match found.last_mut() {
                Some(paragraph) if goes_on => paragraph.push((line.number, line.text)),
                _ => found.push(vec![(line.number, line.text)]),
            }
            goes_on = true;
        }
        last = Some(line);
    }
    found
}

/// Returns the words of a paragraph with the numbers of their lines, without code spans.
fn words<'a>(paragraph: &[(usize, &'a str)]) -> Vec<(usize, &'a str)> {
    let mut in_span = false;
    let mut found = Vec::new();
    for &(number, text) in paragraph {
        for (index, part) in text.split('`').enumerate() {
            in_span ^= index > 0;
            if !in_span {
                let words = part.split(|letter: char| !letter.is_alphanumeric() && !"_'".contains(letter));
                found.extend(words.filter(|word| !word.is_empty()).map(|word| (number, word)));
            }
        }
    }
    found
}

/// Returns the line of each indefinite pronoun.
fn pronouns(words: &[(usize, &str)]) -> impl Iterator<Item = usize> {
    let is = |at: usize, pronoun: &str| {
        let word = words.get(at).and_then(|(_, word)| word.split('\'').next());
        word.is_some_and(|word| word.eq_ignore_ascii_case(pronoun))
    };
    let places = (0..words.len()).filter(move |&at| {
        PRONOUNS.iter().any(|pronoun| is(at, pronoun))
            || PAIRS.iter().any(|[first, second]| is(at, first) && is(at + 1, second))
    });
    places.map(|at| words[at].0)
}

/// Returns true if a string looks like a sentence: at least three words, half of them made of letters.
fn is_message(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    let plain = words.iter().filter(|word| {
        let word = word.trim_matches(|letter: char| letter.is_ascii_punctuation() && letter != '{');
        !word.is_empty() && word.chars().all(char::is_alphabetic)
    });
    words.len() > 2 && plain.count() * 2 >= words.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Voice {
        of_crates(&[Source::new("crates/leasehold/src/a.rs", text).unwrap()], &[]).remove(0)
    }

    #[test]
    fn each_paragraph_of_a_comment_counts_as_one_comment() {
        let text = "//! What waits.\n//!\n//! The queue. For all.\n//! Of it.\n\n/// How it\nfn a() {} // Until then.\n\
                    fn b() {} // Until now.\n// `No` word.\nlet x = \"// Who\";\n";
        let voice = of(text);
        let lines = [1, 6, 7, 8].map(|line| format!("crates/leasehold/src/a.rs:{line}"));
        assert_eq!((voice.comments, voice.clauses), (5, lines.to_vec()));
    }

    #[test]
    fn whole_words_count_as_openings_and_pronouns() {
        let voice = of("// Whatever.\n\n// Offers nobody's hold to no\n// one, and to a noble one.\n");
        assert!(voice.clauses.is_empty());
        assert_eq!(voice.pronouns, ["crates/leasehold/src/a.rs:3"; 2]);
    }

    #[test]
    fn code_is_not_prose() {
        let doc =
            "/// Runs.\n///\n/// ```\n/// // Nobody.\n/// nobody();\n/// ```\n///\n/// Sees `nobody` here.\n";
        let voice = of(doc);
        assert_eq!((voice.words, voice.comments, voice.pronouns.len()), (3, 2, 0));
        let page =
            of_page("README.md", "# A page\n\n```rust\n// nobody\n```\n\nSomebody reads `anyone`\nelse.\n");
        assert_eq!((page.words, page.pronouns), (5, vec!["README.md:7".to_owned()]));
    }

    #[test]
    fn messages_count_and_other_strings_do_not() {
        let text = "fail(\"held by somebody else\", \"nobody\");\nrun(\"x.nobody && {y} == {z}\");\n\
                    #[cfg(test)]\nmod tests {\n    let x = \"nobody is here\";\n}\n";
        let voice = of(text);
        assert_eq!((voice.words, voice.pronouns.len()), (4, 1));
    }

    #[test]
    fn a_script_counts_for_its_crate() {
        let text =
            "-- Of a lock.\n-- KEYS[1] lock hash\n-- returns nil for nobody\nlocal a = 1\n-- Sends it.\n";
        let scripts = [("crates/leasehold-proto/scripts/a.lua", text)];
        let voice = of_crates(&[], &scripts).remove(0);
        assert_eq!(voice.name, "crates/leasehold-proto");
        assert_eq!((voice.comments, voice.clauses.len(), voice.pronouns.len()), (2, 1, 0));
    }

    #[test]
    fn figures_above_the_limits_are_found_with_the_worst_lines() {
        let comments = |clauses: usize| "// Sends.\n\n".repeat(25 - clauses) + &"// Of.\n\n".repeat(clauses);
        assert_eq!(of(&comments(2)).findings(), Vec::<String>::new());
        let findings = of(&comments(3)).findings();
        assert!(findings[0].starts_with("crates/leasehold: 12.0 %"), "{findings:?}");
        assert!(
            findings[0].ends_with("src/a.rs:45, crates/leasehold/src/a.rs:47, crates/leasehold/src/a.rs:49")
        );
        let page = |pronouns: &str| of_page("a.md", &format!("{}\n{pronouns}\n", "word ".repeat(999)));
        assert_eq!(page("someone").findings(), Vec::<String>::new());
        let findings = page("someone\nno one, someone").findings();
        assert!(findings[0].starts_with("a.md: 3.0 ") && findings[0].ends_with(": a.md:3, a.md:2"));
    }

    #[test]
    fn the_table_has_a_row_per_crate_and_page() {
        let table = table(&[of("// Sends.\n"), of_page("a.md", "text")]);
        assert_eq!(table.len(), 3);
        assert!(table[1].contains("0.0 %") && !table[2].contains('%'), "{table:?}");
    }
}
