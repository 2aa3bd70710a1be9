//! `leasehold doctor`: checks a deployment against the assumptions of the locks.
//!
//! Invariant: gathering only asks, and checks only judge. A refused question makes a check unknown, and never lets it
//! pass.
//!
//! # How it works
//! `gather` finds the servers of a URL and asks them. Its result is a `Fleet` of `Facts`, which each check turns into
//! findings. `report` shows the findings as text or as JSON.

pub(crate) mod checks;
pub(crate) mod facts;
pub(crate) mod finding;
pub(crate) mod gather;
pub(crate) mod latency;
pub(crate) mod report;
pub(crate) mod rights;
