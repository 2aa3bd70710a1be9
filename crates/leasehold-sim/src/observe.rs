//! A store that records its calls and their outcomes.
//!
//! Invariant: the behavior of the wrapped store is not changed.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::{Applied, Call, Channel, Reply, StoreError};
use leasehold_store::{Heard, Store, Subscription};
use tokio::sync::mpsc::UnboundedSender;

use crate::environment::Environment;
use crate::history::Event;
use crate::recorder::Recorder;
use crate::wire::Decoded;

/// A store under observation.
pub(crate) struct Observed<S> {
    pub(crate) store: S,
    pub(crate) process: usize,
    pub(crate) recorder: Recorder,
    pub(crate) environment: Arc<dyn Environment>,
}

impl<S: Store> Store for Observed<S> {
    fn run(
        &self,
        call: Call,
        timeout: Duration,
    ) -> impl Future<Output = Result<Reply, StoreError>> + Send + 'static {
        let (process, recorder, environment) =
            (self.process, self.recorder.clone(), Arc::clone(&self.environment));
        let number = recorder.next_call();
        let Decoded { verb, wire, .. } = Decoded::from(&call);
        let count = call.argument("count").or(call.argument("remaining"));
        let sent = Event::Sent {
            process,
            call: number,
            verb,
            name: call.subject(),
            wire,
            count: count.map_or(Some(0), |count| count.parse().ok()),
            lease: call.argument("lease_ms").and_then(|ms| ms.parse().ok()).map(Duration::from_millis),
        };
        recorder.record(environment.now(), sent);
        let run = self.store.run(call, timeout);
        async move {
            let result = run.await;
            let applied: Option<Applied> = result.as_ref().err().map(|error| error.applied);
            recorder.record(environment.now(), Event::Returned { process, call: number, applied });
            result
        }
    }

    fn subscribe(&self, channel: Channel, heard: UnboundedSender<Heard>) -> Subscription {
        self.store.subscribe(channel, heard)
    }
}
