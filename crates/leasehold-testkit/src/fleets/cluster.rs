//! A cluster of masters and replicas.

mod fleet;
mod slots;
mod view;

pub use fleet::{Cluster, ClusterOptions};
pub use slots::SlotMove;
