//! The kinds of lock, by the state on the server while the body runs.

use leasehold::{Client, Lock, RunError, locked};

use crate::support::{Fixture, connect, count, eventually, fields, is_free, ms, on_both, soon};

on_both! {
    async {
        without_a_kind_the_lock_is_reentrant,
        a_fair_function_waits_in_the_queue_of_the_server,
        a_fenced_function_reads_its_token,
        readers_run_together_and_exclude_writers,
        a_writer_runs_alone,
        a_semaphore_limits_concurrent_runs,
    }
}

#[locked(name = "job", client = client)]
async fn plain<T>(client: &Client, look: impl FnOnce() -> T) -> Result<T, RunError> {
    Ok(look())
}

async fn without_a_kind_the_lock_is_reentrant(server: Fixture) {
    let client = connect(&server).await;
    let held = plain(&client, || fields(&server, "job")).await.unwrap();
    assert_eq!(held.values().collect::<Vec<_>>(), ["1"]);
    assert_eq!(server.cli(&["DBSIZE"]), "0");
    #[locked(name = "job", kind = reentrant, client = client)]
    async fn reentrant(client: &Client, look: impl FnOnce() -> u32) -> Result<u32, RunError> {
        Ok(look())
    }
    assert_eq!(reentrant(&client, || count(&server, "job")).await, Ok(1));
}

#[locked(name = "job", kind = fair, client = client)]
async fn fair(client: &Client) -> Result<(), RunError> {
    Ok(())
}

async fn a_fair_function_waits_in_the_queue_of_the_server(server: Fixture) {
    let client = connect(&server).await;
    let guard = client.fair_lock("job").lock().await.unwrap();
    let waiting = tokio::spawn(async move { fair(&client).await });
    let waiters = || server.cli(&["LLEN", "redisson_lock_queue:{job}"]);
    eventually("a waiter in the queue", || waiters() == "1").await;
    guard.release().await.unwrap();
    assert_eq!(soon("its turn", waiting).await.unwrap(), Ok(()));
}

#[locked(name = "job", kind = fenced, fence = token, client = client)]
async fn fenced(client: &Client, look: impl Fn() -> String) -> Result<(u64, String), RunError> {
    Ok((token, look()))
}

async fn a_fenced_function_reads_its_token(server: Fixture) {
    let client = connect(&server).await;
    let issued = || server.cli(&["GET", "redisson_lock_token:{job}"]);
    assert_eq!(fenced(&client, issued).await, Ok((1, "1".to_owned())));
    assert_eq!(fenced(&client, issued).await, Ok((2, "2".to_owned())));
}

#[locked(name = "job", kind = read, wait = "0s", client = client)]
async fn read(client: &Client, look: impl FnOnce() -> String) -> Result<String, RunError> {
    let together: Lock<_> = client.rw_lock("job").read_lock();
    assert!(together.owned_by(&client.owner()).try_lock().await.unwrap().is_some());
    Ok(look())
}

#[locked(name = "job", kind = write, wait = "0s", client = client)]
async fn write(client: &Client, look: impl FnOnce() -> String) -> Result<String, RunError> {
    let alone = client.rw_lock("job").read_lock().owned_by(&client.owner());
    assert!(alone.try_lock().await.unwrap().is_none());
    Ok(look())
}

async fn readers_run_together_and_exclude_writers(server: Fixture) {
    let client = connect(&server).await;
    let mode = || server.cli(&["HGET", "job", "mode"]);
    assert_eq!(read(&client, mode).await, Ok("read".to_owned()));
    let _reader = client.rw_lock("job").read().await.unwrap();
    assert!(read(&client, mode).await.is_ok());
    assert!(matches!(write(&client, mode).await, Err(RunError::Busy { wait, .. }) if wait == ms(0)));
}

async fn a_writer_runs_alone(server: Fixture) {
    let client = connect(&server).await;
    let mode = || server.cli(&["HGET", "job", "mode"]);
    assert_eq!(write(&client, mode).await, Ok("write".to_owned()));
    eventually("the release", || is_free(&server, "job")).await;
    let _writer = client.rw_lock("job").write().await.unwrap();
    assert!(matches!(read(&client, mode).await, Err(RunError::Busy { .. })));
}

#[locked(name = "seats", kind = semaphore(2), wait = "0s", client = client)]
async fn seated<T>(client: &Client, body: impl AsyncFnOnce() -> T) -> Result<T, RunError> {
    Ok(body().await)
}

#[locked(name = "{name}", kind = semaphore(most), client = client)]
async fn counted(client: &Client, name: &str, most: u32) -> Result<i64, RunError> {
    Ok(client.expirable_semaphore(name).permits().await.unwrap())
}

async fn a_semaphore_limits_concurrent_runs(server: Fixture) {
    let client = connect(&server).await;
    let taken = || server.cli(&["ZCARD", "{seats}:timeout"]);
    let nested = seated(&client, async || {
        assert_eq!(taken(), "1");
        let second = seated(&client, async || {
            let third = seated(&client, async || unreachable!("there are two")).await;
            assert!(matches!(third, Err(RunError::Busy { wait, .. }) if wait == ms(0)));
            taken()
        });
        second.await
    });
    assert_eq!(nested.await, Ok(Ok("2".to_owned())));
    eventually("both to be given back", || taken() == "0").await;
    assert_eq!(counted(&client, "others", 7).await, Ok(7), "a number may be computed");
}
