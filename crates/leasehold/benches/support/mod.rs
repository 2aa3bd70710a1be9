//! Shared parts of the benchmarks.

pub(crate) mod bare;
pub(crate) mod cost;
pub(crate) mod duel;
pub(crate) mod subject;
