//! The report of an earlier run, for the parts that are not measured again.
//!
//! Invariant: a part is kept whole, with the line that names its date and commit.

use std::fs;
use std::path::Path;

/// The text of the earlier report, empty if there is none.
pub(super) struct Earlier(String);

impl Earlier {
    pub(super) fn read(path: &Path) -> Self {
        Self(fs::read_to_string(path).unwrap_or_default())
    }

    #[cfg(test)]
    pub(super) fn of(page: &str) -> Self {
        Self(page.to_owned())
    }

    /// Returns the part of a group, from its title to the next one.
    pub(super) fn group(&self, title: &str) -> Option<&str> {
        let start = self.0.find(&format!("\n## {title}\n"))?;
        let rest = &self.0[start..];
        let end = rest[1..].find("\n## ").map_or(rest.len(), |end| end + 1);
        Some(&rest[..end])
    }

    /// Returns the row of a workload in the overview, with its line break.
    pub(super) fn overview_row(&self, title: &str) -> Option<&str> {
        let start = format!("| {title} |");
        self.group("Overview")?.split_inclusive('\n').find(|line| line.starts_with(&start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Results\n\n## Overview\n\n| a | 1 |\n| b | 2 |\n\n## One\n\nx\n\n## Two\n\ny\n";

    #[test]
    fn a_part_ends_before_the_next() {
        let earlier = Earlier::of(PAGE);
        assert_eq!(earlier.group("One"), Some("\n## One\n\nx\n"));
        assert_eq!(earlier.group("Two"), Some("\n## Two\n\ny\n"));
        assert_eq!(earlier.group("Three"), None);
    }

    #[test]
    fn a_row_is_found_by_the_title_of_its_workload() {
        let earlier = Earlier::of(PAGE);
        assert_eq!(earlier.overview_row("b"), Some("| b | 2 |\n"));
        assert_eq!(earlier.overview_row("x"), None);
        assert_eq!(Earlier::of("").overview_row("a"), None);
    }
}
