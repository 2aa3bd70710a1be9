//! The deterministic simulator of leasehold.
//!
//! One `u64` seed decides clients, workload, schedule, clocks and faults. The real client runs in two worlds: over a
//! simulated store (*fast*), and with the real redis-rs over a simulated network (*full*). The modules of `invariants`,
//! one for each group of promise ids, observe every event.
//!
//! Invariant: two runs of one seed have equal histories.

mod bounds;
mod clock;
pub mod command;
mod environment;
mod fast;
mod fault;
mod full;
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
