//! Prints the findings, as text for an operator or as JSON for a program.

use std::fmt::Write;

use serde::Serialize;

use super::finding::{Finding, Verdict};

/// The version of the JSON form. It grows when a field changes its meaning or goes.
const SCHEMA: u32 = 1;

/// The examination of one deployment. Its JSON form is documented in `docs/command.md`.
#[derive(Debug, Serialize)]
pub(crate) struct Examination {
    schema: u32,
    verdict: Verdict,
    urls: Vec<String>,
    counts: Counts,
    findings: Vec<Finding>,
}

/// The number of findings of each verdict.
#[derive(Debug, Default, Serialize)]
struct Counts {
    pass: usize,
    unknown: usize,
    warn: usize,
    fail: usize,
}

impl Examination {
    pub(crate) fn new(urls: Vec<String>, findings: Vec<Finding>) -> Self {
        let verdict = findings.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Fail);
        let mut counts = Counts::default();
        for finding in &findings {
            *match finding.verdict {
                Verdict::Pass => &mut counts.pass,
                Verdict::Unknown => &mut counts.unknown,
                Verdict::Warn => &mut counts.warn,
                Verdict::Fail => &mut counts.fail,
            } += 1;
        }
        Self { schema: SCHEMA, verdict, urls, counts, findings }
    }

    /// Returns the exit code: 0 if every check passed, 2 if one failed, else 1.
    pub(crate) fn code(&self) -> u8 {
        match self.verdict {
            Verdict::Pass => 0,
            Verdict::Unknown | Verdict::Warn => 1,
            Verdict::Fail => 2,
        }
    }

    pub(crate) fn json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("the form has only texts and numbers");
        text + "\n"
    }

    /// Returns the findings grouped by server, the worst first.
    pub(crate) fn text(&self) -> String {
        let mut nodes: Vec<&str> = Vec::new();
        for finding in &self.findings {
            if !nodes.contains(&finding.node.as_str()) {
                nodes.push(&finding.node);
            }
        }
        let mut text = String::new();
        for node in nodes {
            let mut own: Vec<_> = self.findings.iter().filter(|finding| finding.node == node).collect();
            own.sort_by_key(|finding| std::cmp::Reverse(finding.verdict));
            let _ = writeln!(text, "{node}");
            own.into_iter().for_each(|finding| line(&mut text, finding));
            text.push('\n');
        }
        let Counts { pass, unknown, warn, fail } = self.counts;
        let _ = writeln!(text, "{pass} passed, {unknown} unknown, {warn} warnings, {fail} failed");
        text
    }
}

fn line(text: &mut String, finding: &Finding) {
    let word = match finding.verdict {
        Verdict::Pass => "pass",
        Verdict::Unknown => "unknown",
        Verdict::Warn => "WARN",
        Verdict::Fail => "FAIL",
    };
    let _ = writeln!(text, "  {word:7}  {}: {}", finding.check, finding.found);
    if finding.verdict == Verdict::Pass {
        return;
    }
    let assumption = finding.assumption.map(|id| format!(" ({id})")).unwrap_or_default();
    let _ = writeln!(text, "           why: {}{assumption}", finding.why);
    if let Some(run) = &finding.run {
        let _ = writeln!(text, "           run: {run}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Check;

    const CHECK: Check = Check { name: "eviction", why: "locks vanish", assumption: Some("A3") };

    fn examined(findings: Vec<Finding>) -> Examination {
        let findings = findings.into_iter().map(|finding| finding.on("h:1")).collect();
        Examination::new(vec!["redis://h".into()], findings)
    }

    #[test]
    fn the_worst_finding_is_the_exit_code() {
        let (pass, unknown) = (CHECK.pass("x"), CHECK.unknown("x", "y"));
        let (warn, fail) = (CHECK.warn("x", "y"), CHECK.fail("x", "y"));
        assert_eq!(examined(vec![pass.clone()]).code(), 0);
        assert_eq!(examined(vec![pass.clone(), unknown.clone()]).code(), 1);
        assert_eq!(examined(vec![pass.clone(), warn.clone()]).code(), 1);
        assert_eq!(examined(vec![fail, warn, unknown, pass]).code(), 2);
        assert_eq!(examined(Vec::new()).code(), 2);
    }

    #[test]
    fn the_text_has_the_worst_first_and_says_why_and_what_to_run() {
        let text = examined(vec![CHECK.pass("fine"), CHECK.fail("bad", "CONFIG SET")]).text();
        let expected = "h:1\n  FAIL     eviction: bad\n           why: locks vanish (A3)\n           run: CONFIG SET\n  \
                        pass     eviction: fine\n\n1 passed, 0 unknown, 0 warnings, 1 failed\n";
        assert_eq!(text, expected);
    }
}
