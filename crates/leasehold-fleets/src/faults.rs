//! Carries out each fault, step by step.
//!
//! Invariant: a fault leaves the fleet whole: all nodes are up and agree.

mod cluster;
mod sentinels;
mod servers;
mod steps;
mod thawed;

use std::fmt;

use anyhow::Result;

use crate::clock::now;
use crate::fault::{Fault, Topology};
use crate::fleet::{Fleet, Shape};
use crate::policy::Policy;
use crate::workers::Workers;

/// The times of a fault.
#[derive(Debug, Clone)]
pub struct Course {
    /// The fault.
    pub fault: Fault,
    /// The time before the fault.
    pub began: u64,
    /// The time at which a server served all names again.
    pub serves: u64,
    /// The time at which all nodes were up and agreed.
    pub settled: u64,
    /// The plain ports of the masters from the time at which they served to the next fault. Empty if the fleet chose
    /// other masters meanwhile.
    pub masters: Vec<u16>,
    /// The acquires that were on their way to a frozen master when it resumed.
    pub in_flight: usize,
}

impl Course {
    /// Forgets the masters unless all of these are among them.
    pub(crate) fn keep_masters(&mut self, ports: &[u16]) {
        if !ports.iter().all(|port| self.masters.contains(port)) {
            self.masters.clear();
        }
    }

    /// Returns the time from which the servers can serve a policy. Replicas that confirm have to follow first.
    #[must_use]
    pub const fn ready(&self, policy: Policy) -> u64 {
        if policy.confirm(1).is_some() { self.settled } else { self.serves }
    }
}

/// Returns the last fault that began before a time.
#[must_use]
pub fn cause(courses: &[Course], at: u64) -> Option<&Course> {
    courses.iter().rev().find(|course| course.began <= at)
}

impl fmt::Display for Course {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fault, began, serves, settled, in_flight, .. } = self;
        write!(
            formatter,
            "{began} {fault:?}: serves after {} us, settled after {} us",
            serves - began,
            settled - began
        )?;
        if *in_flight > 0 {
            write!(formatter, ", {in_flight} acquires in flight")?;
        }
        Ok(())
    }
}

/// Injects a fault and waits until the fleet is whole again.
///
/// # Errors
/// The fleet does not become whole, or cannot have this fault.
pub(crate) fn inject(
    fleet: &mut Fleet,
    workers: &mut Workers,
    topology: Topology,
    fault: Fault,
    random: &mut fastrand::Rng,
) -> Result<Course> {
    let began = now();
    let mut in_flight = 0;
    let served = match &mut fleet.shape {
        Shape::Cluster(cluster) if fault == Fault::MasterThawed => {
            let thawed = thawed::inject(cluster, workers, topology, random)?;
            in_flight = thawed.in_flight;
            Some(thawed.served)
        }
        Shape::Sentinels(fleet) => sentinels::inject(fleet, fault, random)?,
        Shape::Cluster(cluster) => cluster::inject(cluster, workers, fault, random)?,
        Shape::Servers(servers) => servers::inject(servers, topology.lease(), fault, random)?,
    };
    let settled = fleet.settle()?;
    let serves = served.map_or(settled, |served| served.at);
    let mut course = Course { fault, began, serves, settled, masters: fleet.ports_of_masters(), in_flight };
    course.keep_masters(served.as_ref().map_or(&[], |served| std::slice::from_ref(&served.port)));
    Ok(course)
}
