//! Measures the scripts per second of the embedded store on one core: `cargo run --release --all-features --example
//! embedded_speed -p leasehold-store`.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a measurement reads a clock and prints")]

use std::time::Instant;

use leasehold_proto::Call;
use leasehold_proto::recipe::reentrant::SCRIPTS;
use leasehold_store::embedded::{Database, Frame};

const ROUNDS: u64 = 1_000_000;
const KEYS: u64 = 1_000;

fn main() {
    let [acquire, _, release, ..] = SCRIPTS;
    let mut database = Database::new();
    let pairs: Vec<(Call, Call)> = (0..KEYS)
        .map(|key| {
            let (lock, owner) =
                (format!("{{order:{key}}}"), format!("8743c9c0-0795-4907-87fd-6c719a6b4586:{key}"));
            let take = Call::of(acquire).key("lock", &lock).arg("lease_ms", 30_000).arg("owner", &owner);
            let give = Call::of(release)
                .key("lock", &lock)
                .arg("owner", &owner)
                .arg("remaining", 0)
                .arg("publish", "PUBLISH")
                .arg("channel", format!("redisson_lock__channel:{lock}"))
                .arg("message", "0");
            (take, give)
        })
        .collect();
    let started = Instant::now();
    let mut held = 0;
    for round in 0..ROUNDS {
        let (take, give) = &pairs[usize::try_from(round % KEYS).unwrap_or(0)];
        assert_eq!(database.run(round, take).reply, Frame::Nil);
        held += usize::from(database.run(round, give).reply == Frame::Int(1));
    }
    let elapsed = started.elapsed();
    assert_eq!(held as u64, ROUNDS);
    println!("{:.0} scripts/s", 2.0 * ROUNDS as f64 / elapsed.as_secs_f64());
}
