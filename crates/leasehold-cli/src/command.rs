//! The verbs of the command line, one file each.
//!
//! Invariant: each verb reports its outcome by its exit code.

pub(crate) mod acl;
pub(crate) mod clients;
pub(crate) mod config;
pub(crate) mod confirm;
pub(crate) mod doctor;
pub(crate) mod elect;
pub(crate) mod fleet;
pub(crate) mod job;
pub(crate) mod leader;
pub(crate) mod list;
pub(crate) mod pages;
pub(crate) mod release;
pub(crate) mod repair;
pub(crate) mod run;
pub(crate) mod show;
pub(crate) mod tickets;
pub(crate) mod watch;
