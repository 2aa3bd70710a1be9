//! The tasks of a workload: tasks of tokio, or a thread for each if the peer blocks.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::sync::oneshot;

/// The stack of a thread, enough for a blocking call.
const STACK: usize = 256 * 1024;

/// Starts a task and returns a receiver of its result.
pub(crate) fn start<T: Send + 'static>(
    blocks: bool,
    task: impl Future<Output = T> + Send + 'static,
) -> Result<oneshot::Receiver<T>> {
    let (sender, receiver) = oneshot::channel();
    if blocks {
        let builder = thread::Builder::new().stack_size(STACK);
        builder.spawn(move || sender.send(wait(task))).context("cannot start a thread")?;
    } else {
        tokio::spawn(async move { sender.send(task.await) });
    }
    Ok(receiver)
}

/// Pauses a task. Tokio's timers round up to the next millisecond, so a thread sleeps for the task.
pub(crate) async fn pause(blocks: bool, time: Duration) {
    if blocks {
        thread::sleep(time);
    } else {
        // The pause fails only when the runtime ends.
        let _ = tokio::task::spawn_blocking(move || thread::sleep(time)).await;
    }
}

/// Polls a future on this thread, which no runtime has entered. The blocking API of leasehold refuses other threads.
fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
