//! Functions under the attribute that name no client. They run in a process of their own, because an installed client
//! stays installed.

#![cfg(feature = "macros")]
#![allow(clippy::unwrap_used, reason = "helpers of tests are test code too")]
#![allow(clippy::disallowed_methods, reason = "test code: a task")]

use leasehold::{AlreadyInstalled, NotInstalled, RunError, install, locked};
use leasehold_testkit::servers::RedisServer;

mod support;
use support::{connect, count, is_free};

#[locked(name = "job:{number}")]
async fn job(number: u32, look: impl Fn(&str) -> u32) -> Result<u32, RunError> {
    Ok(look(&format!("job:{number}")))
}

#[cfg(feature = "blocking")]
#[locked(name = "job:{number}")]
fn blocking_job(number: u32, look: impl Fn(&str) -> u32) -> Result<u32, RunError> {
    Ok(look(&format!("job:{number}")))
}

#[tokio::test]
async fn the_installed_client_is_used_and_its_lack_is_an_error() {
    let server = RedisServer::start();
    let look = |name: &str| count(&server, name);
    assert_eq!(
        job(1, |_| unreachable!("there is no client")).await,
        Err(RunError::NotInstalled(NotInstalled))
    );
    install(connect(&server).await).unwrap();
    assert_eq!(job(2, look).await, Ok(1));
    assert!(is_free(&server, "job:2"));
    assert_eq!(install(connect(&server).await).unwrap_err(), AlreadyInstalled);
    let task = tokio::spawn(async { job(3, |_| 7).await });
    assert_eq!(task.await.unwrap(), Ok(7), "it is the same one everywhere");
    #[cfg(feature = "blocking")]
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| blocking_job(4, look));
        assert_eq!(thread.join().unwrap(), Ok(1), "in threads that block too");
    });
}
