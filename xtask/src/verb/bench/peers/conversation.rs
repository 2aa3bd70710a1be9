//! One process of a contender, and the lines that the verb exchanges with it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// A process that dies with this value.
pub(super) struct Process {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    complaints: PathBuf,
}

impl Process {
    /// Starts a contender. Its standard error is a file.
    pub(super) fn start(mut command: Command, complaints: PathBuf) -> Result<Self> {
        let file = File::create(&complaints)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file);
        let mut child = command.spawn().context("cannot start the contender")?;
        let input = child.stdin.take().context("the contender has an input")?;
        let output = BufReader::new(child.stdout.take().context("the contender has an output")?);
        let (sender, lines) = channel();
        thread::spawn(move || {
            let mut lines = output.lines().map_while(Result::ok);
            lines.try_for_each(|line| sender.send(line))
        });
        Ok(Self { child, input, lines, complaints })
    }

    /// Writes a line.
    pub(super) fn write(&mut self, line: &Value) -> Result<()> {
        let written = writeln!(self.input, "{line}").and_then(|()| self.input.flush());
        written.with_context(|| self.complaint("the contender has ended"))
    }

    /// Reads a line, and waits for it no longer than this.
    pub(super) fn read(&self, wanted: &str, limit: Duration) -> Result<Value> {
        match self.lines.recv_timeout(limit) {
            Ok(line) => serde_json::from_str(&line).with_context(|| format!("no JSON: {line}")),
            Err(RecvTimeoutError::Timeout) => bail!("no {wanted} within {} s", limit.as_secs()),
            Err(RecvTimeoutError::Disconnected) => bail!(self.complaint("the contender has ended")),
        }
    }

    /// Reads a word of the contract.
    pub(super) fn expect(&self, word: &str, limit: Duration) -> Result<()> {
        let line = self.read(word, limit)?;
        match line.as_str() {
            Some(found) if found == word => Ok(()),
            _ => bail!("the contender wrote {line} in place of {word}"),
        }
    }

    /// Returns a sentence with the error that the contender has written to its standard error.
    fn complaint(&self, sentence: &str) -> String {
        let text = fs::read_to_string(&self.complaints).unwrap_or_default();
        told(&text).map_or_else(|| sentence.to_owned(), |line| format!("{sentence}: {line}"))
    }
}

/// Returns the first line that names an error, because a trace may follow it, or else the last line.
fn told(text: &str) -> Option<&str> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let names_error = |line: &&str| line.contains("Error: ") || line.contains("Exception: ");
    lines.clone().find(names_error).or_else(|| lines.next_back())
}

impl Drop for Process {
    fn drop(&mut self) {
        // A process that is gone is what this wants.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, name: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let folder = std::env::temp_dir();
        Process::start(command, folder.join(format!("peers-{name}-{}", std::process::id()))).unwrap()
    }

    #[test]
    fn lines_go_both_ways() {
        let mut process = shell("read line; echo \"\\\"$line\\\"\"", "echo");
        process.write(&Value::from(7)).unwrap();
        assert_eq!(process.read("line", Duration::from_secs(10)).unwrap(), Value::from("7"));
        fs::remove_file(&process.complaints).unwrap();
    }

    #[test]
    fn a_contender_that_ends_is_quoted() {
        let process = shell("echo first >&2; echo it broke >&2; exit 1", "end");
        let error = process.expect("ready", Duration::from_secs(10)).unwrap_err().to_string();
        assert_eq!(error, "the contender has ended: it broke");
        fs::remove_file(&process.complaints).unwrap();
    }

    #[test]
    fn an_error_is_found_before_its_trace() {
        assert_eq!(told("note\nError: it broke\n\nStack backtrace:\n  0: main\n"), Some("Error: it broke"));
        assert_eq!(told("Traceback:\n  File a\nKeyError: 'b'\n"), Some("KeyError: 'b'"));
        assert_eq!(told("first\nlast\n"), Some("last"));
        assert_eq!(told(""), None);
    }

    #[test]
    fn a_contender_that_hangs_is_given_up() {
        let process = shell("read line", "hang");
        let error = process.expect("ready", Duration::from_millis(1)).unwrap_err().to_string();
        assert!(error.starts_with("no ready within"), "{error}");
        fs::remove_file(&process.complaints).unwrap();
    }
}
