//! The state that the functions of a script share.
//!
//! Invariant: this state is never locked while Lua runs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::errors::Failure;
use super::random::Random;
use crate::embedded::command_context::CommandContext;

/// The state that the functions of a script work on.
#[derive(Default)]
pub(super) struct Work {
    pub(super) context: CommandContext,
    pub(super) random: Random,
    pub(super) failure: Option<Failure>,
}

/// The work that the virtual machine's functions share. Only one thread ever uses it.
#[derive(Clone, Default)]
pub(super) struct SharedWork(Arc<Mutex<Work>>);

impl SharedWork {
    pub(super) fn work(&self) -> MutexGuard<'_, Work> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
