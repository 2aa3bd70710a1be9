//! The meeting of waiting and holding: hand-off, its listener probe, and the checks after a failover.

pub(in crate::engine) mod checks;
pub(in crate::engine) mod failover_checks;
pub(in crate::engine) mod hand_off;
pub(in crate::engine) mod listener_probe;
pub(in crate::engine) mod probe;
