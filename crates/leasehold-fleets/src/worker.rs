//! The process that takes locks of every policy, and writes what it does before it does it.
//!
//! Invariant: the worker ends only after it has closed its clients.

use std::io::BufRead;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};
use leasehold::Client;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::policy::{Kind, Policy};
use crate::rush::{self, Order};
pub use crate::user::Options;
use crate::user::{Journal, User, connect};

/// The tasks with locks of each policy.
const TASKS: usize = 6;

/// Runs a worker until its standard input ends. Each line of it is an order.
///
/// # Errors
/// The log cannot be opened, or a client cannot connect.
pub fn run(options: &Options) -> Result<()> {
    let journal = Arc::new(options.journal()?);
    let watched = Arc::clone(&journal);
    let (give, orders) = mpsc::unbounded_channel();
    thread::spawn(move || {
        // An error is an end too.
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let order: Order = serde_json::from_str(&line).expect("the campaign writes orders");
            if give.send(order).is_err() {
                break;
            }
        }
        watched.end();
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(work(options, &journal, orders))
}

async fn work(
    options: &Options,
    journal: &Arc<Journal>,
    orders: mpsc::UnboundedReceiver<Order>,
) -> Result<()> {
    let policies: Vec<Policy> =
        serde_json::from_str(&options.policies).context("the policies are not JSON")?;
    let resource = Client::connect(&options.resource).await?;
    let (mut tasks, mut sources) = (JoinSet::new(), Vec::new());
    for policy in policies {
        let source = connect(options, policy, options.lease()).await?;
        for task in 0..=TASKS {
            let user = User::new(options, (policy, kind(policy, task)), source.clone(), resource.clone());
            let journal = Arc::clone(journal);
            tasks.spawn(async move {
                while !journal.ends() {
                    user.section(&journal).await;
                }
            });
        }
        sources.push((policy, source));
    }
    tokio::try_join!(rush::obey(orders, options, journal, (&sources, &resource)), ended(tasks))?;
    for (_, source) in sources {
        source.close().await;
    }
    Ok(())
}

async fn ended(mut tasks: JoinSet<()>) -> Result<()> {
    while let Some(ended) = tasks.join_next().await {
        ended.context("a task of a worker panicked")?;
    }
    Ok(())
}

/// Returns the primitive of a task. The last task of each policy is the probe.
fn kind(policy: Policy, task: usize) -> Kind {
    match (policy, task) {
        (_, TASKS) => Kind::Probe,
        (Policy::Fenced, _) => Kind::Fenced,
        (Policy::Single | Policy::Replicated | Policy::All, 0) => Kind::Semaphore,
        _ => Kind::Lock,
    }
}
