//! What looking at locks costs: the times of the verbs, the load of the server, and the rate of a hot lock beside them.
//!
//! Each scenario runs against a private server, for a bounded time, and prints its figures. It asserts none of them, because
//! they depend on the machine. `cargo x scale operators` runs all scenarios, and takes the names of some.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock, and chooses its threads itself")]
#![allow(clippy::print_stdout, reason = "the figures are what a benchmark is for")]
#![allow(clippy::unwrap_used, reason = "a benchmark in which anything fails is no benchmark")]

mod effect;
mod lists;
mod page;
mod scan;
mod usage;

use tokio::runtime::{Builder, Runtime};

type Scenario = fn(&Runtime);

const SCENARIOS: [(&str, Scenario); 5] = [
    ("lists", lists::run),
    ("silent", lists::silent),
    ("effect", effect::run),
    ("page", page::run),
    ("scan", scan::run),
];

fn main() {
    let chosen: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    if let Some(unknown) = chosen.iter().find(|name| SCENARIOS.iter().all(|(known, _)| known != name)) {
        panic!("there is no scenario {unknown}; there are {:?}", SCENARIOS.map(|(name, _)| name));
    }
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for (name, scenario) in SCENARIOS {
        if chosen.is_empty() || chosen.iter().any(|other| other == name) {
            println!("\n{name}");
            scenario(&runtime);
        }
    }
}
