//! The embedded server against redis-server. The same random commands and scripts give the same bytes, the same messages
//! and the same data, times included.
//!
//! Invariant: a difference fails the test unless the server's clock moved within the batch in which it showed.
//! `LEASEHOLD_DIFFERENTIAL_SEED` and `LEASEHOLD_DIFFERENTIAL_COMMANDS` choose another walk.
//!
//! # How it works
//! Each command travels between two TIMEs. When both are in one millisecond, the server executed it in that millisecond.
//! Otherwise the test tries every millisecond between them on a copy, and all copies that give the server's answer go
//! on. After each batch the test compares the data.

mod dump;
mod generator;
mod lua;
mod model;
pub(crate) mod random;
mod real;
mod words;

use std::env;

use generator::Generator;
use model::Model;
use random::Random;
use real::Real;

const SEED: u64 = 0x1ea5_e401d;
const COMMANDS: u64 = 100_000;
const BATCH: usize = 40;

/// The counts of a run.
#[derive(Debug, Default)]
struct Tally {
    commands: u64,
    scripts: u64,
    errors: u64,
    unjudged: u64,
    keys_compared: u64,
    messages: u64,
    resynchronised: u64,
}

fn number(variable: &str, otherwise: u64) -> u64 {
    env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn random_commands_and_scripts_behave_alike_on_both_servers() {
    let seed = number("LEASEHOLD_DIFFERENTIAL_SEED", SEED);
    let wanted = number("LEASEHOLD_DIFFERENTIAL_COMMANDS", COMMANDS);
    let server = leasehold_testkit::servers::RedisServer::start();
    let mut real = Real::connect(server.port());
    let mut generator = Generator::new(Random::new(seed));
    let mut model = Model::new(real.started_ms());
    let mut tally = Tally::default();
    while tally.commands < wanted {
        let now_ms = real.now_ms();
        let batch: Vec<_> = (0..BATCH).map(|_| generator.command(now_ms)).collect();
        if let Err(report) = run(&mut real, &mut model, &batch, &mut tally) {
            panic!("seed {seed} (LEASEHOLD_DIFFERENTIAL_SEED), after {} commands:\n{report}", tally.commands);
        }
    }
    println!("seed {seed}: {tally:?}");
    assert!(tally.unjudged * 50 < tally.commands, "too many could not be judged: {tally:?}");
    assert!(
        tally.errors * 10 > tally.commands && tally.errors * 10 < 8 * tally.commands,
        "a dull walk: {tally:?}"
    );
}

fn run(real: &mut Real, model: &mut Model, batch: &[Vec<Vec<u8>>], tally: &mut Tally) -> Result<(), String> {
    let answers = real.execute_timed(batch);
    let state = real.dump();
    let heard = real.heard();
    let mut moved = false;
    for (at, (command, answer)) in batch.iter().zip(&answers).enumerate() {
        moved |= answer.from_ms != answer.to_ms;
        tally.commands += 1;
        tally.scripts += u64::from(command[0].eq_ignore_ascii_case(b"eval"));
        tally.errors += u64::from(answer.reply.starts_with(b"-"));
        if let Err(report) = model.follow(command, answer) {
            if moved {
                tally.unjudged += (batch.len() - at) as u64;
                tally.commands += (batch.len() - at - 1) as u64;
                tally.resynchronised += 1;
                model.resynchronise(real, &state.entries);
                return Ok(());
            }
            return Err(format!("{report}\nbefore it:\n{}", model.report(command)));
        }
    }
    tally.messages += heard.len() as u64;
    moved |= state.from_ms != state.to_ms;
    match model.compare(&state, &heard) {
        Ok(keys) => tally.keys_compared += keys,
        Err(_) if moved => {
            tally.unjudged += batch.len() as u64;
            tally.resynchronised += 1;
            model.resynchronise(real, &state.entries);
        }
        Err(report) => return Err(format!("{report}\nthe batch:\n{}", model::show_all(batch))),
    }
    Ok(())
}
