//! `leasehold doctor`: an examination of a deployment against the assumptions of the locks.
//!
//! Invariant: the gathering asks and judges nothing, the checks judge and ask nothing. A refused question
//! makes a check unknown, and never passes.
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
