//! The rule for commits: a short subject, and a body that says why when the diff is large.
//!
//! Invariant: the rule reads only commits that the default branch of `origin` lacks, and none on that branch itself.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::shell::output;

/// The most characters of a subject.
const SUBJECT_MAX: usize = 60;
/// The most changed lines of a commit without a body.
const BODYLESS_MAX: usize = 30;

/// Checks the commits of the current branch.
///
/// # Errors
/// There is nothing to compare the branch with, or it is the default branch itself.
pub(super) fn check(root: &Path) -> Result<Vec<String>> {
    let git = |arguments: &[&str]| {
        let printed = output(Command::new("git").args(arguments).current_dir(root));
        printed.map(|printed| printed.trim().to_owned())
    };
    let is_shallow = git(&["rev-parse", "--is-shallow-repository"]).ok().context("there is no repository")?;
    ensure!(is_shallow == "false", "the clone is shallow");
    let named = git(&["symbolic-ref", "--quiet", "refs/remotes/origin/HEAD"]).ok();
    let usual = ["refs/remotes/origin/main", "refs/remotes/origin/master"].map(str::to_owned);
    let id = |name: &str| git(&["rev-parse", "--verify", "--quiet", name]);
    let mut names = named.into_iter().chain(usual);
    let base = names.find(|name| id(name).is_ok()).context("origin has no default branch here")?;
    // A detached HEAD has no name, and its commits are checked.
    let branch = git(&["symbolic-ref", "--quiet", "--short", "HEAD"]).unwrap_or_default();
    let is_default = base.rsplit('/').next() == Some(branch.as_str()) || id(&base)? == id("HEAD")?;
    ensure!(!is_default, "HEAD is the default branch");
    let range = format!("{base}..HEAD");
    let log =
        ["log", "--no-merges", "--no-show-signature", "--numstat", "--format=%x01%h%x00%s%x00%b%x00", &range];
    Ok(judge(&git(&log)?))
}

/// Checks the commits of a log. Each one begins with the byte 1 and has its id, subject, body and statistics, separated
/// by the byte 0.
fn judge(log: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for commit in log.split('\x01') {
        let parts: Vec<&str> = commit.splitn(4, '\0').collect();
        let [id, subject, body, statistics] = parts[..] else { continue };
        let mut finding = |what: String| findings.push(format!("commit {id}: {what}"));
        let length = subject.chars().count();
        if length > SUBJECT_MAX {
            finding(format!("the subject has {length} characters, {SUBJECT_MAX} at most"));
        }
        if subject.ends_with('.') {
            finding("the subject ends with a full stop".to_owned());
        }
        let changed: usize = statistics.lines().map(changed).sum();
        if changed > BODYLESS_MAX && body.trim().is_empty() {
            finding(format!("{changed} changed lines need a body that says why, {BODYLESS_MAX} do not"));
        }
    }
    findings
}

/// Returns the changed lines of a file, from its added and removed lines. Binary files have dashes in place of numbers.
fn changed(statistic: &str) -> usize {
    statistic.split('\t').take(2).filter_map(|number| number.parse::<usize>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::{env, fs, process};

    use super::*;

    /// A repository in a temporary folder, removed on drop.
    struct Repository(PathBuf);

    impl Repository {
        /// Creates a repository with one commit on the branch `main`.
        fn new(name: &str) -> Self {
            let folder = env::temp_dir().join(format!("leasehold-commits-{}-{name}", process::id()));
            fs::create_dir_all(&folder).unwrap();
            let repository = Self(folder);
            repository.git(&["init", "--quiet", "--initial-branch", "main"]);
            repository.commit("Start.", 1);
            repository
        }

        fn git(&self, arguments: &[&str]) {
            let mut git = Command::new("git");
            for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
                git.env_remove(variable);
            }
            git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
            git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(arguments);
            output(git.current_dir(&self.0)).unwrap();
        }

        /// Commits this many lines more.
        fn commit(&self, message: &str, lines: usize) {
            let file = self.0.join("file");
            let text = fs::read_to_string(&file).unwrap_or_default() + &"line\n".repeat(lines);
            fs::write(file, text).unwrap();
            self.git(&["add", "file"]);
            self.git(&["commit", "--quiet", "--message", message]);
        }

        /// Makes the current commit the default branch of origin, and begins another branch.
        fn branch(&self) {
            self.git(&["update-ref", "refs/remotes/origin/main", "HEAD"]);
            self.git(&["checkout", "--quiet", "-b", "topic"]);
        }

        fn reason(&self) -> String {
            check(&self.0).unwrap_err().to_string()
        }
    }

    impl Drop for Repository {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn commits_of_the_branch_are_checked_and_older_ones_are_not() {
        let repository = Repository::new("branch");
        repository.branch();
        repository.commit("a: add thirty lines", 30);
        repository.commit("a: add eighty lines\n\nThirty are not enough.", 80);
        assert_eq!(check(&repository.0).unwrap(), Vec::<String>::new());
        repository.commit(&"long ".repeat(13), 1);
        repository.commit("a: add 31 lines", 31);
        repository.commit("a: add a line.", 1);
        let findings = check(&repository.0).unwrap();
        assert_eq!(findings.len(), 3, "{findings:?}");
        assert!(findings[0].ends_with("the subject ends with a full stop"), "{findings:?}");
        assert!(findings[1].contains("31 changed lines"), "{findings:?}");
        assert!(findings[2].contains("the subject has 64 characters, 60 at most"), "{findings:?}");
    }

    #[test]
    fn without_a_reference_and_on_the_default_branch_no_commit_is_checked() {
        let repository = Repository::new("main");
        assert_eq!(repository.reason(), "origin has no default branch here");
        repository.git(&["update-ref", "refs/remotes/origin/main", "HEAD"]);
        repository.commit("a: a commit with a full stop.", 1);
        assert_eq!(repository.reason(), "HEAD is the default branch");
        repository.git(&["checkout", "--quiet", "--detach", "refs/remotes/origin/main"]);
        assert_eq!(repository.reason(), "HEAD is the default branch");
        repository.git(&["checkout", "--quiet", "--detach", "main"]);
        assert_eq!(check(&repository.0).unwrap().len(), 1);
    }

    #[test]
    fn the_default_branch_of_origin_may_have_any_name() {
        let repository = Repository::new("trunk");
        repository.git(&["update-ref", "refs/remotes/origin/trunk", "HEAD"]);
        repository.git(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk"]);
        assert_eq!(repository.reason(), "HEAD is the default branch");
        repository.commit("a: end.", 1);
        assert_eq!(check(&repository.0).unwrap().len(), 1);
    }

    #[test]
    fn a_shallow_clone_has_nothing_to_compare_with() {
        let whole = Repository::new("whole");
        whole.commit("a: a second commit", 1);
        let origin = format!("file://{}", whole.0.display());
        whole.git(&["clone", "--quiet", "--depth", "1", &origin, "clone"]);
        assert_eq!(check(&whole.0.join("clone")).unwrap_err().to_string(), "the clone is shallow");
    }
}
