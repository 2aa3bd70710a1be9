//! `leasehold top`: the locks of a fleet on the terminal, the contended ones first.
//!
//! Invariant: read-only unless the command was told otherwise. The terminal is as it was before when the program ends, by a
//! key, a signal or a panic.

mod draw;
#[cfg(test)]
mod fixture;
mod state;

use std::io::{self, IsTerminal};
use std::time::Duration;

use anyhow::anyhow;
use crossterm::event::{Event, EventStream, KeyEventKind};
use futures_util::StreamExt;
use futures_util::future::LocalBoxFuture;
use ratatui::DefaultTerminal;

use self::state::{State, Wish};
use crate::arguments::screens::Top;
use crate::clock::{after, reached};
use crate::command::{fleet, show};
use crate::exit::Failure;
use crate::fleet::{Fleet, Query, ScanRule};
use crate::signals::Signals;

/// The most objects that a sample has.
const OBJECTS: usize = 500;

/// Runs the verb and returns the exit code.
pub(crate) fn run(arguments: &Top) -> u8 {
    fleet::run(&arguments.servers, async |fleet| {
        on_terminal(&fleet, arguments).await?;
        Ok(0)
    })
}

/// Shows the screen until a key or a signal ends the program.
async fn on_terminal(fleet: &Fleet, arguments: &Top) -> Result<(), Failure> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(Failure::usage(anyhow!("`leasehold top` needs a terminal; `leasehold list` does not")));
    }
    let mut signals = Signals::ending().map_err(Failure::system)?;
    let mut terminal = ratatui::try_init().map_err(Failure::system)?;
    let shown = show(fleet, &mut terminal, &mut signals, arguments.allow_release).await;
    ratatui::restore();
    shown.map_err(Failure::system)
}

async fn show(
    fleet: &Fleet,
    terminal: &mut DefaultTerminal,
    signals: &mut Signals,
    may_release: bool,
) -> io::Result<()> {
    let mut state = State::new(may_release);
    let mut events = EventStream::new();
    let mut sample_at = after(Duration::ZERO);
    let query = Query { limit: Some(OBJECTS), scan: ScanRule::Never, ..Query::default() };
    let mut listing = Box::pin(fleet.list(&query));
    let mut is_reading = true;
    let mut asked: Option<LocalBoxFuture<'_, Answer>> = None;
    loop {
        terminal.draw(|frame| draw::draw(frame, &state))?;
        tokio::select! {
            listed = &mut listing, if is_reading => {
                is_reading = false;
                sample_at = after(Duration::from_millis(state.pace * 100));
                match listed {
                    Ok(listing) => state.update(listing),
                    Err(failure) => state.message = Some(format!("{:#}", failure.reason)),
                }
            }
            () = reached(Some(sample_at)), if !is_reading => {
                (listing, is_reading) = (Box::pin(fleet.list(&query)), true);
            }
            event = events.next() => {
                let Some(event) = event.transpose()? else { return Ok(()) };
                let Event::Key(key) = event else { continue };
                if key.kind == KeyEventKind::Release {
                    continue;
                }
                match state.press(key) {
                    Wish::Quit => return Ok(()),
                    Wish::Nothing => {}
                    Wish::Show(name) => asked = Some(Box::pin(report(fleet, name))),
                    Wish::Release { name, owner } => asked = Some(Box::pin(release(fleet, name, owner))),
                }
            }
            answer = answered(&mut asked) => {
                asked = None;
                match answer {
                    Answer::Report(name, report) => state.show(name, report),
                    Answer::Message(message) => state.message = Some(message),
                }
            }
            _ = signals.next() => return Ok(()),
        }
    }
}

/// What a key has asked for.
enum Answer {
    Report(String, String),
    Message(String),
}

/// Completes with the answer, or never when nothing is asked. Keys and signals are served meanwhile.
async fn answered(asked: &mut Option<LocalBoxFuture<'_, Answer>>) -> Answer {
    match asked {
        Some(asked) => asked.await,
        None => std::future::pending().await,
    }
}

async fn report(fleet: &Fleet, name: String) -> Answer {
    let report = match fleet.show(&name).await {
        Ok(listing) => show::report(&name, &listing),
        Err(failure) => format!("{:#}", failure.reason),
    };
    Answer::Report(name, report)
}

async fn release(fleet: &Fleet, name: String, owner: String) -> Answer {
    let released = fleet.release(&name, &owner, None).await;
    Answer::Message(
        released
            .map_or_else(|failure| format!("{:#}", failure.reason), |released| format!("{name}: {released}")),
    )
}
