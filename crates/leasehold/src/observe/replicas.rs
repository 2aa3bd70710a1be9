//! The warning of missing replicas.

/// Warns that calls count with fewer replicas than the policy wants.
pub(crate) fn warn(connected: u32, wanted: u32) {
    tracing::warn!(
        target: "leasehold",
        connected,
        wanted,
        "replicas are missing, so locks count with those that are connected, and a failover can lose them"
    );
}
