//! A scheduler of which several copies run, and one works. `README.md` has the steps.
//!
//! Each line on stdout says which copy did what, with the number of its term. A line is the stand-in of a write to a
//! resource: `LEASEHOLD_URL` has the server, and the value `scheduler:last` there refuses a write of an older term.

#![allow(clippy::print_stdout, reason = "the lines are what the example shows")]

use std::env;
use std::time::Duration;

use anyhow::{Context, Result};
use leasehold::error::FencedWriteError;
use leasehold::{Client, Term};
use tokio::signal::unix::{SignalKind, signal};

/// The pause between two jobs.
const TICK: Duration = Duration::from_millis(50);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let name = env::args().nth(1).context("the first argument is the name of this copy")?;
    let lease = env::args().nth(2).map_or(Ok(10), |seconds| seconds.parse())?;
    let url = env::var("LEASEHOLD_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());
    let client = Client::connect(&url).await?;
    let election = client.election("scheduler").candidate(&name).watchdog(Duration::from_secs(lease));

    // At SIGTERM, as in a rolling deploy, the body ends first, and then the next copy leads.
    let (stopper, mut terminated) = (election.stopper(), signal(SignalKind::terminate())?);
    let stopping = async {
        terminated.recv().await;
        stopper.stop().await;
    };
    let leading = election.lead(async |term| serve(&client, &name, term).await);
    println!("{name} is ready");
    tokio::pin!(leading);
    // An error of the body ends the program, and a signal ends the body.
    tokio::select! {
        led = &mut leading => drop(led?),
        () = stopping => drop(leading.await?),
    }
    println!("{name} is done");
    client.close().await;
    Ok(())
}

/// Runs jobs until the term should end.
async fn serve(client: &Client, name: &str, term: &Term) -> Result<()> {
    println!("{name} begins term {}", term.token());
    loop {
        tokio::select! {
            reason = term.asked() => {
                println!("{name} ends term {}: {reason}", term.token());
                return Ok(());
            }
            () = pause() => job(client, name, term).await?,
        }
    }
}

/// Runs a job, whose effect a later term's job refuses to be overwritten by this one.
async fn job(client: &Client, name: &str, term: &Term) -> Result<()> {
    match client.fenced(term.token()).set("scheduler:last", name).await {
        Ok(()) => println!("{name} worked in term {}", term.token()),
        Err(error @ FencedWriteError::Stale { .. }) => {
            println!("{name} was refused in term {}: {error}", term.token());
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "an example has a clock of its own")]
async fn pause() {
    tokio::time::sleep(TICK).await;
}
