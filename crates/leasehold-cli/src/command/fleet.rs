//! What the verbs for operators share: connecting, and reporting a failure.

use std::time::Duration;

use tokio::runtime;

use crate::arguments::operator::Servers;
use crate::exit::Failure;
use crate::fleet::Fleet;
use crate::report::Report;
use crate::settings;

/// Connects, does the work and returns its exit code.
pub(crate) fn run(servers: &Servers, work: impl AsyncFnOnce(Fleet) -> Result<u8, Failure>) -> u8 {
    attempt(servers, work).unwrap_or_else(|failure| {
        Report::new(false).warn(format_args!("{:#}", failure.reason));
        failure.code
    })
}

fn attempt(servers: &Servers, work: impl AsyncFnOnce(Fleet) -> Result<u8, Failure>) -> Result<u8, Failure> {
    let Servers { sources, timeout } = servers;
    let config = settings::servers(sources)?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::system)?;
    let code = runtime.block_on(async {
        let fleet = Fleet::connect(&config, *timeout).await?;
        work(fleet).await
    });
    runtime.shutdown_timeout(Duration::ZERO);
    code
}
