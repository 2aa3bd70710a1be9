//! Tests of the engine without a server or a clock: every order of a few events, and long random walks.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]
#![expect(clippy::print_stdout, reason = "the size of the space that was explored is a result")]

mod adoption;
mod behind;
mod clock;
mod confirmed;
mod counters;
mod election_model;
mod facts;
mod hand_off;
mod harness;
mod lane;
mod min_holds;
mod model;
mod outcomes;
mod owners;
mod plain;
mod properties;
mod questions;
mod queues;
mod replaced;
mod scenarios;
mod signs_of_life;
mod silence;
mod turns;
mod undone;
mod world;
