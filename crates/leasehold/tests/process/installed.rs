//! The installed client: functions under the attribute that name no client, and both APIs. Each test runs in a process
//! of its own, because an installed client stays installed.

use leasehold::blocking;
use leasehold::error::{AlreadyInstalled, NotInstalled};
use leasehold::{RunError, install, locked};
use leasehold_testkit::servers::RedisServer;

use crate::child::runs_alone;
use crate::support::{connect, count, is_free};

#[locked(name = "job:{number}")]
async fn job(number: u32, look: impl Fn(&str) -> u32) -> Result<u32, RunError> {
    Ok(look(&format!("job:{number}")))
}

#[locked(name = "job:{number}")]
fn blocking_job(number: u32, look: impl Fn(&str) -> u32) -> Result<u32, RunError> {
    Ok(look(&format!("job:{number}")))
}

#[tokio::test]
async fn the_installed_client_is_used_and_a_missing_one_is_an_error() {
    if !runs_alone("installed::the_installed_client_is_used_and_a_missing_one_is_an_error") {
        return;
    }
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
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| blocking_job(4, look));
        assert_eq!(thread.join().unwrap(), Ok(1), "in threads that block too");
    });
}

#[test]
fn an_installed_client_serves_both_apis() {
    if !runs_alone("installed::an_installed_client_serves_both_apis") {
        return;
    }
    let server = RedisServer::start();
    let client = blocking::Client::connect(&server.url()).unwrap();
    assert!(blocking::installed().is_err());
    blocking::install(client.clone()).unwrap();
    assert!(blocking::install(client).is_err(), "there is one");
    let _guard = blocking::installed().unwrap().lock("job").lock().unwrap();
    assert_eq!(count(&server, "job"), 1);
    assert!(leasehold::installed().is_ok());
}
