//! The verbs of the command line, one file each.
//!
//! Invariant: each verb reports its outcome by its exit code.

pub(crate) mod acl;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod run;
