//! The integration tests of the test helpers.

#![allow(clippy::unwrap_used, reason = "helpers of tests are test code too")]

mod fleets;
mod proxy;
mod servers;
