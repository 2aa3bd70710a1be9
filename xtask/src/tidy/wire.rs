//! The rule for references to the wire protocol: the numbered sections that they name exist.
//!
//! Invariant: a script names sections in its header line `wire`. Any other text links to a heading of the page.

use std::collections::BTreeSet;

/// The page with the sections.
pub(super) const PAGE: &str = "docs/protocol.md";

/// The headings of the page: numbers for scripts, anchors for links.
pub(super) struct Sections {
    numbers: BTreeSet<String>,
    anchors: BTreeSet<String>,
}

impl Sections {
    /// Reads the headings of the page.
    pub(super) fn of(page: &str) -> Self {
        let headings = page.lines().filter_map(heading);
        let numbers = headings.clone().filter_map(number);
        Self { numbers: numbers.map(str::to_owned).collect(), anchors: headings.map(anchor).collect() }
    }

    /// Scripts whose line `wire` is missing, malformed or names a section that the page lacks.
    pub(super) fn cited_by(&self, script: &str, text: &str) -> Vec<String> {
        let header = text.lines().map_while(|line| line.strip_prefix("-- "));
        let Some(cited) = header.filter_map(|line| line.strip_prefix("wire ")).next() else {
            return vec![format!("{script}: the header has no line `wire`, which names sections of {PAGE}")];
        };
        let numbers = cited.split_once(';').map_or(cited, |(numbers, _)| numbers).split(", ");
        let unknown = numbers.filter(|number| !self.numbers.contains(*number));
        unknown.map(|number| format!("{script}: `wire` names {number:?}, no section of {PAGE}")).collect()
    }

    /// Links to headings that the page lacks.
    pub(super) fn linked_by(&self, path: &str, text: &str) -> Vec<String> {
        let begins = if path == PAGE { "](#" } else { "protocol.md#" };
        let links = text.match_indices(begins).map(|(at, _)| link(&text[at + begins.len()..]));
        let broken = links.filter(|link| !link.is_empty() && !self.anchors.contains(*link));
        broken.map(|link| format!("{path}: {PAGE} has no heading #{link}")).collect()
    }
}

fn heading(line: &str) -> Option<&str> {
    line.strip_prefix('#').map(|rest| rest.trim_start_matches('#').trim())
}

/// Returns the number at the start of a heading: `5` of `5. Lock`, `5.1` of `5.1 Acquire`.
fn number(heading: &str) -> Option<&str> {
    let number = heading.split(' ').next()?.trim_end_matches('.');
    number.split('.').all(|part| part.parse::<u32>().is_ok()).then_some(number)
}

/// Returns the anchor that a Markdown page gives to a heading.
fn anchor(heading: &str) -> String {
    let kept =
        heading.chars().filter(|&letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

fn link(text: &str) -> &str {
    let ends = text.find(|letter: char| !letter.is_alphanumeric() && !matches!(letter, '-' | '_'));
    &text[..ends.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Wire\n\n## 5. A lock\n\nSee [acquire](#51-acquire).\n\n### 5.1 Acquire\n";

    fn cited(header: &str) -> usize {
        let script = format!("-- Acquires.\n{header}\nreturn 1\n-- wire 99\n");
        Sections::of(TEXT).cited_by("a.lua", &script).len()
    }

    #[test]
    fn a_script_names_sections_that_exist() {
        for good in
            ["-- wire 5", "-- wire 5.1", "-- wire 5, 5.1", "-- wire 5.1; an absolute count, for example"]
        {
            assert_eq!(cited(good), 0, "{good}");
        }
        let broken =
            ["-- calls get", "-- wire 5.2", "-- wire 5,5.1", "-- wire 5 item 1", "-- wire Wire", "-- wire "];
        for bad in broken {
            assert_eq!(cited(bad), 1, "{bad}");
        }
        assert_eq!(cited("-- wire 5.2, 5.1, 6"), 2);
    }

    #[test]
    fn a_link_leads_to_a_heading() {
        let sections = Sections::of(TEXT);
        assert_eq!(sections.linked_by("a.rs", "//! (docs/protocol.md#5-a-lock).").len(), 0);
        assert_eq!(sections.linked_by("a.md", "[x](protocol.md) [y](protocol.md#51-acquire)").len(), 0);
        assert_eq!(
            sections.linked_by("a.md", "[x](../protocol.md#51-release) protocol.md#5-a-lock").len(),
            1
        );
        assert_eq!(sections.linked_by(PAGE, TEXT).len(), 0);
        assert_eq!(sections.linked_by(PAGE, "[x](#52-release)").len(), 1);
    }
}
