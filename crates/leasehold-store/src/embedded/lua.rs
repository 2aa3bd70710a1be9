//! Scripts, run as redis-server runs them.
//!
//! Invariant: a script sees only KEYS, ARGV and what the server lends it: nothing that one script does to its virtual
//! machine is seen by another.
//! Called by: the commands that run or learn scripts.
//!
//! # How it works
//! Each thread has one virtual machine, whatever the number of databases, with the functions that were compiled on it.
//! While a script runs, its [`Machine`] lies on the virtual machine's `bench`, where `redis.call` finds it.

mod api;
mod errors;
mod random;
mod sandbox;
mod structs;
mod values;
mod vm;

use std::cell::RefCell;

use super::commands::Fault;
use super::frame::Frame;
use super::machine::Machine;
use vm::Vm;

thread_local! {
    static VM: RefCell<Option<Vm>> = const { RefCell::new(None) };
}

/// Runs a script on a machine's data.
pub(super) fn run<'a>(
    machine: &mut Machine,
    sha1: &str,
    source: &[u8],
    keys: impl Iterator<Item = &'a [u8]>,
    args: impl Iterator<Item = &'a [u8]>,
) -> Frame {
    let outcome = with_vm(|vm| vm.run(machine, sha1, source, keys, args));
    outcome.unwrap_or_else(|fault| Frame::Error(fault.0.into_owned()))
}

/// Whether a text is a script at all.
pub(super) fn check(sha1: &str, source: &[u8]) -> Result<(), Fault> {
    with_vm(|vm| vm.compile(sha1, source).map(|_| ()))
}

fn with_vm<R>(act: impl FnOnce(&mut Vm) -> Result<R, Fault>) -> Result<R, Fault> {
    VM.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = Some(Vm::new().map_err(|error| Fault::of(format!("ERR no virtual machine: {error}")))?);
        }
        slot.as_mut().map_or(Err(Fault::new("ERR no virtual machine")), act)
    })
}
