//! The conversation with the verb: lines on standard input and output.

use std::env;
use std::io::{BufRead, Stdin, StdoutLock, Write, stdin, stdout};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use crate::contract::{Figures, Workload};
use crate::{Peer, workloads};

/// Runs the workloads of standard input against the server whose URL is the first argument.
///
/// # Errors
/// A line that is no part of the contract, and a workload that cannot be set up.
pub fn serve<P: Peer>() -> Result<()> {
    let url = env::args().nth(1).context("the first argument is the URL of the server")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut verb = Verb { input: stdin(), output: stdout().lock() };
    while let Some(line) = verb.read()? {
        let workload: Workload =
            serde_json::from_str(&line).with_context(|| format!("no workload: {line}"))?;
        if let Some(reason) = P::refusal(&workload) {
            verb.write(&json!({ "unsupported": reason }).to_string())?;
            continue;
        }
        let figures = runtime.block_on(workloads::run::<P>(&url, &workload, &mut verb))?;
        verb.figures(&figures)?;
    }
    // Connections and renewals that a peer left behind end with the process.
    runtime.shutdown_background();
    Ok(())
}

/// The verb at the other end of the pipes.
pub(crate) struct Verb {
    input: Stdin,
    output: StdoutLock<'static>,
}

impl Verb {
    /// Says that everything is set up, and returns when the window begins.
    pub(crate) fn ready(&mut self) -> Result<()> {
        self.write("\"ready\"")?;
        self.expect("\"go\"")
    }

    /// Says that the window is over, and returns when the verb has taken its own figures.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.write("\"end\"")?;
        self.expect("\"finish\"")
    }

    fn figures(&mut self, figures: &Figures) -> Result<()> {
        self.write(&serde_json::to_string(figures)?)
    }

    fn expect(&mut self, word: &str) -> Result<()> {
        match self.read()? {
            Some(line) => {
                ensure!(line == word, "the verb wrote {line} in place of {word}");
                Ok(())
            }
            None => bail!("standard input ended within a workload"),
        }
    }

    fn read(&mut self) -> Result<Option<String>> {
        let mut line = String::new();
        let length = self.input.lock().read_line(&mut line)?;
        Ok((length > 0).then(|| line.trim().to_owned()))
    }

    fn write(&mut self, line: &str) -> Result<()> {
        writeln!(self.output, "{line}")?;
        Ok(self.output.flush()?)
    }
}
