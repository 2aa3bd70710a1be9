//! The client at scale: many waiters of one client, a fleet of processes, many holds over a restart of the server, and
//! locks over several masters.
//!
//! Each scenario runs against private servers, for a bounded time, and prints its figures. It asserts none of them,
//! because they depend on the machine. `cargo x scale` runs all scenarios, and takes the names of some.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock, and chooses its threads itself")]
#![allow(clippy::print_stdout, reason = "the figures are what a benchmark is for")]
#![allow(clippy::unwrap_used, reason = "a benchmark in which anything fails is no benchmark")]

#[path = "../support/cost.rs"]
mod cost;
mod elections;
mod fleet;
mod holds;
mod masters;
mod queue;
mod waiters;

use std::pin::Pin;

use tokio::runtime::Builder;

type Scenario = fn() -> Pin<Box<dyn Future<Output = ()>>>;

const SCENARIOS: [(&str, Scenario); 7] = [
    ("drain", || Box::pin(waiters::drain())),
    ("idle", || Box::pin(waiters::idle())),
    ("hot", || Box::pin(waiters::hot())),
    ("fleet", || Box::pin(fleet::run())),
    ("restart", || Box::pin(holds::run())),
    ("masters", || Box::pin(masters::run())),
    ("elections", || Box::pin(elections::run())),
];

fn main() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if let Some(url) = std::env::var_os(fleet::WORKER) {
        return runtime.block_on(fleet::work(url.to_str().unwrap()));
    }
    if let Some(url) = std::env::var_os(elections::LEADER) {
        return runtime.block_on(elections::lead_for_good(url.to_str().unwrap()));
    }
    let chosen: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    if let Some(unknown) = chosen.iter().find(|name| SCENARIOS.iter().all(|(known, _)| known != name)) {
        let known: Vec<_> = SCENARIOS.iter().map(|(name, _)| *name).collect();
        panic!("there is no scenario {unknown}; there are {}", known.join(", "));
    }
    for (name, scenario) in SCENARIOS {
        if chosen.is_empty() || chosen.iter().any(|other| other == name) {
            println!("\n{name}");
            runtime.block_on(scenario());
        }
    }
}
