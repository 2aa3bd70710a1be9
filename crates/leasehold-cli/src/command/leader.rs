//! `leasehold leader`, `transfer` and `resign`: who leads, and a word to the leader.
//!
//! Invariant: these verbs change no lock. The leader does, when it is asked.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold::Election;
use leasehold::election::{Leader, State};
use serde_json::{Value, json};
use tokio::runtime;

use crate::arguments::elections;
use crate::arguments::operator::Sources;
use crate::command::run::{connect_once, name, reported, warn_of_password};
use crate::duration::shown;
use crate::exit::Failure;
use crate::report::{Report, cleaned, try_write_to_stdout};
use crate::settings;

/// The exit codes besides 0.
const NOBODY: u8 = 1;
const STAYS: u8 = 2;

/// Runs `leasehold leader` and returns the exit code.
pub(crate) fn run(arguments: &elections::Leader) -> u8 {
    with(&arguments.sources, &arguments.name, async |election| {
        if arguments.watch {
            return watch(&election, arguments.json).await;
        }
        let leader = election.leader().await.map_err(Failure::unavailable)?;
        let state = leader.map_or(State::NoLeader, State::Leader);
        try_write_to_stdout(&line(&state, arguments.json));
        Ok(if state.leader().is_some() { 0 } else { NOBODY })
    })
}

/// Prints each state until nobody reads.
async fn watch(election: &Election, is_json: bool) -> Result<u8, Failure> {
    let mut view = election.observe();
    while let Some(state) = view.changed().await {
        if !try_write_to_stdout(&line(&state, is_json)) {
            break;
        }
    }
    Ok(0)
}

/// Runs `leasehold transfer` and returns the exit code.
pub(crate) fn transfer(arguments: &elections::Transfer) -> u8 {
    with(&arguments.sources, &arguments.name, async |election| {
        let to = &arguments.to;
        let leads = |leader: &Leader| leader.candidate.as_ref() == Some(to);
        let Some(before) = present(&election).await? else { return Ok(nobody()) };
        if leads(&before) {
            return Ok(0);
        }
        if !election.request_transfer(to).await.map_err(Failure::unavailable)? {
            return Ok(nobody());
        }
        // Another candidate may lead in between, and a new leader has no name for a moment.
        let ended = |state: &State| state.leader().is_some_and(leads);
        let is_done = until(&election, arguments.wait, ended).await;
        if !is_done {
            let left = present(&election).await?.is_none_or(|leader| leader.owner != before.owner);
            let why =
                if left { "another candidate leads, or none" } else { "the leader has not ended its term" };
            Report::new(false)
                .warn(format_args!("{to:?} does not lead after {}: {why}", shown(arguments.wait)));
        }
        Ok(if is_done { 0 } else { STAYS })
    })
}

/// Runs `leasehold resign` and returns the exit code.
pub(crate) fn resign(arguments: &elections::Resign) -> u8 {
    with(&arguments.sources, &arguments.name, async |election| {
        let Some(before) = present(&election).await? else { return Ok(nobody()) };
        if !election.request_resign().await.map_err(Failure::unavailable)? {
            return Ok(nobody());
        }
        let ended = |state: &State| match state {
            State::Unknown { .. } => false,
            state => state.leader().is_none_or(|leader| leader.owner != before.owner),
        };
        let is_done = until(&election, arguments.wait, ended).await;
        if !is_done {
            let wait = shown(arguments.wait);
            Report::new(false).warn(format_args!("the leader has not ended its term after {wait}"));
        }
        Ok(if is_done { 0 } else { STAYS })
    })
}

async fn present(election: &Election) -> Result<Option<Leader>, Failure> {
    election.leader().await.map_err(Failure::unavailable)
}

fn nobody() -> u8 {
    Report::new(false).warn(format_args!(
        "nobody leads, or the leader did not answer within 1 s: it is frozen, cut off, or of another library"
    ));
    NOBODY
}

/// Waits for a state. Returns false if it does not come in time.
async fn until(election: &Election, wait: Duration, is_wanted: impl Fn(&State) -> bool) -> bool {
    let mut view = election.observe();
    let coming = async {
        while let Some(state) = view.changed().await {
            if is_wanted(&state) {
                return true;
            }
        }
        false
    };
    tokio::select! {
        biased;
        came = coming => came,
        () = crate::clock::reached(Some(crate::clock::after(wait))) => false,
    }
}

/// Connects as a client that operators do not see, does the work and closes.
fn with(sources: &Sources, text: &str, work: impl AsyncFnOnce(Election) -> Result<u8, Failure>) -> u8 {
    let report = Report::new(false);
    let attempt = || {
        warn_of_password(sources.url.as_ref(), report);
        let name = name(text)?;
        let settings = settings::client(sources)?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::system)?;
        runtime.block_on(async {
            let client = connect_once(&settings).await?;
            let code = work(client.election(name)).await;
            client.close().await;
            code
        })
    };
    reported(report, attempt())
}

/// Returns the line of a state.
fn line(state: &State, is_json: bool) -> String {
    let text = if is_json { object(state).to_string() } else { words(state) };
    format!("{}\n", cleaned(&text).replace('\n', " "))
}

fn words(state: &State) -> String {
    let leader = match state {
        State::Unknown { since: Some(since), .. } => {
            return format!("unknown: the server has not answered for {}", shown(*since));
        }
        State::Leader(leader) => leader,
        State::NoLeader => return "nobody leads".to_owned(),
        _ => return "unknown: the server has not answered".to_owned(),
    };
    let Leader { candidate, info, term, owner, host, pid, .. } = leader;
    let mut parts = vec![candidate.clone().unwrap_or_else(|| format!("owner {owner}"))];
    parts.extend(term.map(|term| format!("term {term}")));
    parts.extend(host.as_ref().zip(*pid).map(|(host, pid)| format!("process {pid} on {host}")));
    parts.extend(leader.valid_for.map(|left| format!("{} of the lease left", shown(left))));
    parts.extend(info.clone().filter(|info| !info.is_empty()));
    parts.join(", ")
}

fn object(state: &State) -> Value {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    match state {
        State::Leader(leader) => json!({
            "state": "leader",
            "candidate": leader.candidate,
            "info": leader.info,
            "term": leader.term,
            "owner": leader.owner,
            "host": leader.host,
            "pid": leader.pid,
            "since_ms": leader.since.and_then(|since: SystemTime| since.duration_since(UNIX_EPOCH).ok()).map(millis),
            "valid_for_ms": leader.valid_for.map(millis),
        }),
        State::NoLeader => json!({ "state": "none" }),
        State::Unknown { since, .. } => json!({ "state": "unknown", "unanswered_ms": since.map(millis) }),
        other => json!({ "state": format!("{other:?}") }),
    }
}
