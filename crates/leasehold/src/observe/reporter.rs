//! The reporter: the thread that tells notices to the program's subscribers, which may block.
//!
//! Invariant: telling never waits. The thread that tells may be the driver, which renews the locks, while it holds the
//! store's lock. A log pipe that stands still costs notices, and no lock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::{plain_text, replicas};

/// The notices that may wait for the reporter. They are rare, so more than these mean that the log stands still.
const WAITING_MAX: usize = 256;

/// A notice for the operator.
#[derive(Debug)]
pub(crate) enum Notice {
    /// A password travels in plain text to this server.
    PlainText { server: String },
    /// Fewer replicas are connected than the policy wants.
    MissingReplicas { connected: u32, wanted: u32 },
}

/// Gives a notice to the reporter. It is lost if too many wait, or if the system has no thread left.
pub(crate) fn tell(notice: Notice) {
    static REPORTER: OnceLock<Option<SyncSender<Notice>>> = OnceLock::new();
    if let Some(reporter) = REPORTER.get_or_init(start) {
        // A full queue means that the log stands still, and a notice of that would be lost too.
        let _ = reporter.try_send(notice);
    }
}

#[expect(clippy::disallowed_methods, reason = "a log that stands still may stop this thread alone")]
fn start() -> Option<SyncSender<Notice>> {
    let (sender, notices) = sync_channel(WAITING_MAX);
    let reporter = thread::Builder::new().name("leasehold-notices".into()).spawn(move || report(&notices));
    reporter.ok().map(|_| sender)
}

/// Reports each notice. A subscriber that panics loses that notice alone.
fn report(notices: &Receiver<Notice>) {
    for notice in notices {
        let _ = catch_unwind(AssertUnwindSafe(|| match notice {
            Notice::PlainText { server } => plain_text::warn(&server),
            Notice::MissingReplicas { connected, wanted } => replicas::warn(connected, wanted),
        }));
    }
}
