//! The findings of the checks.

use serde::Serialize;

/// The verdict of a check, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    Pass,
    /// The check could not be made.
    Unknown,
    Warn,
    Fail,
}

/// The subject of a check, and its importance for locks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) why: &'static str,
    /// The assumption of `docs/guarantees.md` that the check is about.
    pub(crate) assumption: Option<&'static str>,
}

/// The result of a check. Its JSON form is documented in `docs/command.md`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// The server, or the URL for what concerns all servers.
    pub(crate) node: String,
    pub(crate) check: &'static str,
    pub(crate) verdict: Verdict,
    pub(crate) found: String,
    pub(crate) why: &'static str,
    pub(crate) assumption: Option<&'static str>,
    /// The command or the setting that changes the finding.
    pub(crate) run: Option<String>,
}

impl Check {
    fn finding(&self, verdict: Verdict, found: impl Into<String>, run: Option<String>) -> Finding {
        let Self { name: check, why, assumption } = *self;
        Finding { node: String::new(), check, verdict, found: found.into(), why, assumption, run }
    }

    pub(crate) fn pass(&self, found: impl Into<String>) -> Finding {
        self.finding(Verdict::Pass, found, None)
    }

    pub(crate) fn warn(&self, found: impl Into<String>, run: impl Into<String>) -> Finding {
        self.finding(Verdict::Warn, found, Some(run.into()))
    }

    pub(crate) fn fail(&self, found: impl Into<String>, run: impl Into<String>) -> Finding {
        self.finding(Verdict::Fail, found, Some(run.into()))
    }

    /// Returns the finding that this cannot be said, and the command that says it to a user with more rights.
    pub(crate) fn unknown(&self, found: impl Into<String>, run: impl Into<String>) -> Finding {
        self.finding(Verdict::Unknown, found, Some(run.into()))
    }
}

impl Finding {
    /// Names the server of the finding.
    pub(crate) fn on(mut self, node: &str) -> Self {
        node.clone_into(&mut self.node);
        self
    }
}
