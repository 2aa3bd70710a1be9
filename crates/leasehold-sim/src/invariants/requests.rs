//! The acquires that have not ended, which several invariants need.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::history::{Event, Op};
use crate::primitive::covers;
use crate::recorder::view::View;

/// The acquires that have begun and have not ended.
#[derive(Default)]
pub(super) struct Requests(BTreeMap<Op, Request>);

pub(super) struct Request {
    pub(super) process: usize,
    pub(super) name: Arc<str>,
    pub(super) since: Duration,
}

impl Requests {
    pub(super) fn see(&mut self, event: &Event, view: &View) {
        match event {
            Event::Requested { op, process, name, what, .. } if what.acquires() => {
                let request = Request { process: *process, name: Arc::clone(name), since: view.now };
                self.0.insert(*op, request);
            }
            Event::Completed { op, .. } | Event::Dropped { op } => {
                self.0.remove(op);
            }
            Event::Killed { process } => self.0.retain(|_, request| request.process != *process),
            _ => {}
        }
    }

    /// Returns the requests of a process that are about a name.
    pub(super) fn of<'a>(&'a self, process: usize, name: &'a str) -> impl Iterator<Item = &'a Request> {
        self.0.values().filter(move |request| request.process == process && covers(&request.name, name))
    }
}
