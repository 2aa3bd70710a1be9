//! The course of each fault.
//!
//! Invariant: a fault leaves the fleet whole: all nodes are up and agree.

mod cluster;
mod sentinels;
mod servers;
mod steps;

use std::fmt;

use anyhow::Result;

use crate::clock::now;
use crate::fault::Fault;
use crate::fleet::Fleet;

/// The times of a fault.
#[derive(Debug, Clone, Copy)]
pub struct Course {
    /// The fault.
    pub fault: Fault,
    /// The time before the fault.
    pub began: u64,
    /// The time at which a server served all names again.
    pub serves: u64,
    /// The time at which all nodes were up and agreed.
    pub settled: u64,
}

impl fmt::Display for Course {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fault, began, serves, settled } = self;
        write!(
            formatter,
            "{began} {fault:?}: serves after {} us, settled after {} us",
            serves - began,
            settled - began
        )
    }
}

/// Injects a fault and waits until the fleet is whole again.
///
/// # Errors
/// The fleet does not become whole, or cannot have this fault.
pub fn inject(fleet: &mut Fleet, fault: Fault, random: &mut fastrand::Rng) -> Result<Course> {
    let began = now();
    let serves = match fleet {
        Fleet::Sentinels(fleet) => sentinels::inject(fleet, fault, random)?,
        Fleet::Cluster(cluster) => cluster::inject(cluster, fault, random)?,
        Fleet::Servers(servers) => servers::inject(servers, fault, random)?,
    };
    let settled = fleet.settle()?;
    Ok(Course { fault, began, serves: serves.unwrap_or(settled), settled })
}
