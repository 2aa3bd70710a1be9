//! The table of the counts, `xtask/counts.txt`: the instructions of each operation on the day of the last refresh.
//!
//! Invariant: the limit of an operation follows from its count in the table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Context, Result, ensure};

pub(super) const HEADER: &str =
    "operation                                        instructions      table  change      limit";
/// The beginning of the line that names the tools.
const TOOLS: &str = "# Counted with ";

/// The instructions of each operation.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Counts(BTreeMap<String, u64>);

/// The instructions above the count of the table that pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Margin {
    /// The counts of the same tools do not vary. The margin is below the cost of one more copy of a call.
    SameTools,
    /// Another compiler or C library gives other code.
    OtherTools,
}

/// An operation, its instructions, those of the table, and the limit.
#[derive(Debug, PartialEq)]
pub(super) struct Row {
    operation: String,
    counted: Option<u64>,
    expected: Option<u64>,
    limit: Option<u64>,
}

impl Margin {
    /// Returns the margin between a table and a run by the names of their tools.
    pub(super) fn between(of_table: &str, of_run: &str) -> Self {
        if of_table == of_run { Self::SameTools } else { Self::OtherTools }
    }

    /// Returns the most instructions of an operation whose row has this number.
    fn limit(self, expected: u64) -> u64 {
        let percent = match self {
            Self::SameTools => 2,
            Self::OtherTools => 15,
        };
        expected + expected * percent / 100
    }
}

impl Counts {
    /// Reads the table and the names of its tools.
    pub(super) fn parse(text: &str) -> Result<(Self, String)> {
        let (mut counts, mut tools) = (Self::default(), String::new());
        for line in text.lines() {
            if let Some(name) = line.strip_prefix(TOOLS) {
                name.clone_into(&mut tools);
            } else if !line.starts_with('#') {
                let row = line.rsplit_once(' ').context(format!("{line:?} is no row"))?;
                let instructions = row.1.parse().with_context(|| format!("{line:?} has no count"))?;
                counts.add(row.0.trim().to_owned(), instructions)?;
            }
        }
        Ok((counts, tools))
    }

    /// Writes the table.
    pub(super) fn to_text(&self, tools: &str) -> String {
        let mut text = format!(
            "# The instructions of each operation. `cargo x counts` compares them, and `--refresh` writes them.\n\
             {TOOLS}{tools}\n"
        );
        for (operation, instructions) in &self.0 {
            text += &format!("{operation:<44}{instructions:>9}\n");
        }
        text
    }

    pub(super) fn add(&mut self, operation: String, instructions: u64) -> Result<()> {
        ensure!(!self.0.contains_key(&operation), "two operations are called {operation:?}");
        self.0.insert(operation, instructions);
        Ok(())
    }

    /// Compares the counts of a run with these counts of the table.
    pub(super) fn compare(&self, counted: &Self, margin: Margin) -> Vec<Row> {
        let operations: BTreeSet<&String> = self.0.keys().chain(counted.0.keys()).collect();
        let row = |operation: &String| {
            let expected = self.0.get(operation).copied();
            Row {
                operation: operation.clone(),
                counted: counted.0.get(operation).copied(),
                expected,
                limit: expected.map(|expected| margin.limit(expected)),
            }
        };
        operations.into_iter().map(row).collect()
    }
}

impl Row {
    pub(super) fn operation(&self) -> &str {
        &self.operation
    }

    /// Returns true if the operation is above its limit, was not counted, or has no limit.
    pub(super) fn is_bad(&self) -> bool {
        self.verdict() != ""
    }

    fn verdict(&self) -> &'static str {
        match (self.counted, self.limit) {
            (Some(counted), Some(limit)) if counted <= limit => "",
            (Some(_), Some(_)) => "  ABOVE",
            (Some(_), None) => "  NOT IN THE TABLE",
            (None, _) => "  NOT COUNTED",
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cell = |number: Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
        let change = match (self.counted, self.expected) {
            (Some(counted), Some(expected)) => {
                format!("{:+.1} %", 100.0 * (counted as f64 / expected as f64 - 1.0))
            }
            _ => "-".to_owned(),
        };
        let [counted, expected, limit] = [self.counted, self.expected, self.limit].map(cell);
        write!(formatter, "{:<47}{counted:>14}{expected:>11}{change:>8}{limit:>11}", self.operation)?;
        formatter.write_str(self.verdict())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(rows: &[(&str, u64)]) -> Counts {
        Counts(rows.iter().map(|(operation, count)| ((*operation).to_owned(), *count)).collect())
    }

    fn verdicts(expected: &[(&str, u64)], counted: &[(&str, u64)], margin: Margin) -> Vec<&'static str> {
        counts(expected).compare(&counts(counted), margin).iter().map(Row::verdict).collect()
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let written = counts(&[("engine acquire free", 1_234), ("engine hand_over 10000", 5)]);
        let (read, tools) = Counts::parse(&written.to_text("rustc 1.95.0")).unwrap();
        assert_eq!((read, &*tools), (written, "rustc 1.95.0"));
        assert!(Counts::parse("engine acquire free many").is_err());
        assert!(Counts::parse("a 1\na 2").is_err());
    }

    #[test]
    fn a_count_above_its_limit_is_bad_and_one_at_its_limit_is_not() {
        let (same, other) = (Margin::between("a", "a"), Margin::between("a", "b"));
        let cases = [(same, 0, ""), (same, 1_020, ""), (same, 1_021, "  ABOVE")];
        for (margin, counted, verdict) in
            cases.into_iter().chain([(other, 1_150, ""), (other, 1_151, "  ABOVE")])
        {
            assert_eq!(
                verdicts(&[("a", 1_000)], &[("a", counted)], margin),
                [verdict],
                "{margin:?} {counted}"
            );
        }
    }

    #[test]
    fn a_row_without_a_count_and_a_count_without_a_row_are_bad() {
        let found = verdicts(&[("a", 1)], &[("b", 1)], Margin::SameTools);
        assert_eq!(found, ["  NOT COUNTED", "  NOT IN THE TABLE"]);
    }
}
