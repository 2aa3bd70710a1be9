//! From a URL to a running client.
//!
//! Invariant: this is the only file that names a back end.
//! Called by: the client's builder.

use std::sync::Arc;

use leasehold_proto::engine::Settings;
use leasehold_proto::{ClientId, Engine};
pub use leasehold_store::redis::UrlError;
use leasehold_store::redis::{ConnectOptions, Redis, ServerUrl};
use leasehold_store::tokio_runtime::TokioRuntime;
use leasehold_store::{Runtime, Store};
use tokio::sync::oneshot;

use crate::driver::drive;
use crate::error::ConnectError;
use crate::shared::{Handle, Shared};

/// Connects, and starts the driver.
pub(crate) async fn connect(url: &str, settings: Settings) -> Result<Arc<Handle>, ConnectError> {
    let url = ServerUrl::parse(url).map_err(ConnectError::Url)?;
    let server = url.to_string();
    let options = ConnectOptions::default().timeout(settings.timeout);
    start(&TokioRuntime, settings, server, async move || Redis::connect(&url, options).await).await
}

/// Starts a driver on a thread of its own, which opens the store there, and waits until it is open.
async fn start<R, S, O>(
    runtime: &R,
    settings: Settings,
    server: String,
    open: O,
) -> Result<Arc<Handle>, ConnectError>
where
    R: Runtime + Clone,
    S: Store,
    O: AsyncFnOnce() -> Result<S, leasehold_proto::StoreError> + Send + 'static,
{
    let clock = runtime.clone();
    let engine = Engine::new(ClientId::from_random(runtime.random()), settings);
    let shared = Arc::new(Shared::new(engine, move || clock.now()));
    let (mut tell, told) = oneshot::channel();
    let (driven, alarms) = (shared, runtime.clone());
    let driver = move || async move {
        let opened = match alarms.alarm() {
            Ok(alarm) => tokio::select! {
                opened = open() => match opened {
                    Ok(store) => Ok((store, alarm)),
                    Err(source) => Err(ConnectError::Store { server, source }),
                },
                // Nobody waits for the client any more.
                () = tell.closed() => return,
            },
            Err(error) => Err(ConnectError::Thread(error)),
        };
        match opened {
            Ok((store, alarm)) => {
                // The handle travels in the answer: when nobody takes it, it is dropped, and that ends the client.
                drop(tell.send(Ok(Handle::new(Arc::clone(&driven)))));
                drive(driven, store, alarm, settings.timeout).await;
            }
            Err(error) => drop(tell.send(Err(error))),
        }
    };
    runtime.start(driver).map_err(ConnectError::Thread)?;
    match told.await {
        Ok(result) => result,
        Err(_) => Err(ConnectError::Thread(std::io::Error::other("the client's thread ended early"))),
    }
}
