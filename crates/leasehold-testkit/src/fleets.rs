//! Real fleets on the loopback interface: a master with replicas behind sentinels, and a cluster of masters and replicas.
//!
//! Every node is a [`RedisServer`](crate::servers::RedisServer) whose settings are in a file that the server rewrites,
//! so a restarted node continues in its last role, as in production. All nodes end with the fleet.
//!
//! Invariant: a returned fleet is settled: every node agrees on the roles, and every replica follows its master.
//!
//! # How it works
//! Tests inject the faults themselves, so no method hides one: a method changes one thing and waits only for what its
//! name says. [`Sentinels::wait_until_settled`] and [`Cluster::wait_until_settled`] wait for the fleet's own reaction.

mod cluster;
mod node;
mod sentinels;
mod sources;
mod user;

pub use cluster::{Cluster, ClusterOptions, SlotMove};
pub use sentinels::{MinReplicas, SentinelOptions, Sentinels};
pub use sources::{SOURCES, source_of_node};
pub use user::User;
