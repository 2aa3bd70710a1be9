//! `leasehold elect`: campaign, run the command as the leader, end the term, and campaign again.
//!
//! Invariant: on a planned end the term is released only after the command and its group have ended.

use std::cell::Cell;
use std::future::pending;
use std::time::Duration;

use anyhow::Error;
use leasehold::election::{LeadError, OnLost};
use leasehold::{Client, Election, Term};

use crate::arguments::elections::Elect;
use crate::command::job::Job;
use crate::command::run::{name, reported, warn_of_password, with_client};
use crate::exit::{self, Failure};
use crate::report::Report;
use crate::signals::Signals;
use crate::supervise::{Finished, Hold};

/// The time that the supervisor has beyond the command's grace, before the library drops it.
const MARGIN: Duration = Duration::from_secs(10);

/// The end of the last term: the command has ended by itself, or could not be run.
#[derive(Debug)]
enum Ended {
    Code(u8),
    Failed(Failure),
}

/// Runs the verb and returns the exit code.
pub(crate) fn run(arguments: &Elect) -> u8 {
    let report = Report::new(arguments.verbose);
    reported(report, attempt(arguments, report))
}

fn attempt(arguments: &Elect, report: Report) -> Result<u8, Failure> {
    warn_of_password(arguments.sources.url.as_ref(), report);
    let name = name(&arguments.name)?;
    with_client(&arguments.sources, async |client, signals| {
        let election = election(client, name, arguments);
        Candidate { arguments, report, code: Cell::new(None) }.lead(&election, signals).await
    })
}

fn election(client: &Client, name: leasehold::Name, arguments: &Elect) -> Election {
    let Elect { candidate, info, lease, grace, priority, .. } = arguments;
    let mut election = client.election(name).watchdog(*lease).priority(*priority);
    if let Some(candidate) = candidate {
        election = election.candidate(candidate);
    }
    if let Some(info) = info {
        election = election.info(info);
    }
    // The supervisor ends the command itself, after a loss as well.
    election.on_lost(OnLost::Finish).grace(grace.saturating_add(MARGIN))
}

/// This process, over all its terms.
struct Candidate<'a> {
    arguments: &'a Elect,
    report: Report,
    /// The exit code of the command of the last term.
    code: Cell<Option<u8>>,
}

impl Candidate<'_> {
    /// Leads until the command ends by itself, or a signal ends the candidacy.
    async fn lead(&self, election: &Election, signals: &mut Signals) -> Result<u8, Failure> {
        let (stopper, caught) = (election.stopper(), Cell::new(None));
        let stopping = async {
            let signal = signals.next().await;
            caught.set(Some(signal));
            self.report.verbose(format_args!("{signal}: the candidacy ends"));
            stopper.stop().await;
            // The candidacy tells its own outcome.
            pending::<()>().await;
        };
        self.report.verbose(format_args!("campaigning for {:?}", self.arguments.name));
        let leading = election.lead(async |term| self.term(term).await);
        let led = tokio::select! {
            biased;
            led = leading => led,
            () = stopping => unreachable!("it leaves the end to the candidacy"),
        };
        match led {
            Ok(_) => Ok(match (self.code.get(), caught.get()) {
                (Some(code), _) => code,
                (None, Some(signal)) => exit::by_signal(signal as i32),
                (None, None) => 0,
            }),
            Err(LeadError::Body(Ended::Code(code))) => Ok(code),
            Err(LeadError::Body(Ended::Failed(failure))) => Err(failure),
            Err(LeadError::Campaign(error)) => Err(Failure::unavailable(error)),
            Err(error) => Err(Failure::unavailable(Error::msg(format!("{error:?}")))),
        }
    }

    /// Runs the command for one term. An error ends the candidacy.
    async fn term(&self, term: &Term) -> Result<(), Ended> {
        let Elect { name, command, on_lost, grace, once, .. } = self.arguments;
        let report = self.report;
        report.verbose(format_args!("leading {name:?}, term {}", term.token()));
        let variables = [
            ("LEASEHOLD_NAME", Some(name.clone())),
            ("LEASEHOLD_TERM", Some(term.token().to_string())),
            ("LEASEHOLD_OWNER", None),
            ("LEASEHOLD_TOKEN", None),
        ];
        let job = Job { command, variables: &variables, on_lost: *on_lost, grace: *grace, report };
        let hold = Leading { term, asked: Cell::new(false) };
        let validity = term.validity();
        // A signal that ends the candidacy asks the term to end, so the command does not get it here too.
        let mut signals = Signals::passed_on().map_err(|error| Ended::Failed(Failure::system(error)))?;
        let finished = job.run(&hold, move || validity.remaining(), &mut signals).await;
        let Finished { ending, lost } = finished.map_err(Ended::Failed)?;
        let code = ending.exit_code();
        self.code.set(Some(code));
        report.verbose(format_args!("the command of term {} ended with {code}", term.token()));
        match (lost, hold.asked.get()) {
            (true, _) if *once => Err(Ended::Code(exit::LOST)),
            (false, true) if *once => Err(Ended::Code(code)),
            (true, _) | (_, true) => Ok(()),
            (false, false) => Err(Ended::Code(code)),
        }
    }
}

/// A term as the supervisor's [`Hold`].
struct Leading<'a> {
    term: &'a Term,
    asked: Cell<bool>,
}

impl Hold for Leading<'_> {
    fn is_held(&self) -> bool {
        self.term.is_valid()
    }

    fn remaining(&self) -> Duration {
        self.term.remaining()
    }

    async fn lost(&self) -> String {
        self.term.lost().await.to_string()
    }

    async fn asked(&self) -> String {
        let reason = self.term.asked().await;
        self.asked.set(true);
        reason.to_string()
    }
}
