//! The grants of the probes, which show when the servers serve a client.

use std::collections::BTreeMap;

use crate::attempt::Attempt;
use crate::policy::{Kind, Policy};

/// Returns the times of the grants of the probe of each client.
#[must_use]
pub fn probes(attempts: &[Attempt]) -> BTreeMap<(Policy, usize), Vec<u64>> {
    let mut probes: BTreeMap<(Policy, usize), Vec<u64>> = BTreeMap::new();
    for attempt in attempts.iter().filter(|attempt| attempt.kind == Kind::Probe) {
        let granted = probes.entry((attempt.policy, attempt.worker)).or_default();
        granted.extend(attempt.hold.as_ref().map(|hold| hold.from));
    }
    probes.values_mut().for_each(|granted| granted.sort_unstable());
    probes
}
