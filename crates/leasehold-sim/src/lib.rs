//! The deterministic simulator of leasehold.
//!
//! One `u64` seed decides clients, workload, schedule, clocks and faults. The real client, with its engine and its wire,
//! runs over a simulated network in front of embedded servers: one (*single*), three independent ones (*quorum*), or a
//! fleet behind sentinels or in a cluster (*fleet*). The modules of `invariants`, one for each group of promise ids,
//! observe every event.
//!
//! Invariant: two runs of one seed have equal histories.

mod bounds;
mod clock;
pub mod command;
mod environment;
mod fault;
mod history;
mod invariants;
mod lifecycle;
mod mode;
mod name_state;
mod observe;
mod owner;
mod plan;
mod primitive;
mod recorder;
mod report;
mod runner;
mod schedule;
mod shrink;
mod taken;
mod wire;
mod workload;
mod world;
