//! The meeting of waiting and holding: hand-off, and the checks after a failover.

pub(in crate::engine) mod failover_checks;
pub(in crate::engine) mod hand_off;
