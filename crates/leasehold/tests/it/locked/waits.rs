//! The wait, and the options for a wait that ends without the lock.

use std::time::{Duration, Instant};

use leasehold::{Client, RunError, locked};

use crate::support::{
    Fixture, connect, eventually, hold_as_redisson, is_free, listeners, ms, on_both, run_command,
    scripts_run, soon,
};

on_both! {
    async {
        without_a_wait_limit_a_function_waits_until_granted,
        a_timed_out_wait_returns_its_error,
        a_wait_is_served_after_the_release,
        a_zero_wait_makes_one_attempt,
        a_busy_function_may_be_skipped,
        a_busy_function_may_have_a_fallback,
        a_busy_method_passes_self_to_its_fallback,
        other_errors_do_not_count_as_busy,
    }
}

const MINUTE: Duration = Duration::from_secs(60);

#[locked(name = "job", client = client)]
async fn patient(client: &Client) -> Result<u32, RunError> {
    Ok(1)
}

async fn without_a_wait_limit_a_function_waits_until_granted(server: Fixture) {
    let client = connect(&server).await;
    let guard = client.lock("job").lock().await.unwrap();
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { patient(&client).await }
    });
    eventually("it to listen", || listeners(&server, "job") == 1).await;
    assert!(!waiting.is_finished());
    guard.release().await.unwrap();
    assert_eq!(soon("the function", waiting).await.unwrap(), Ok(1));
}

#[locked(name = "job", wait = "300ms", on_busy = error, client = client)]
async fn hasty(client: &Client) -> Result<u32, leasehold::Error> {
    Ok(2)
}

async fn a_timed_out_wait_returns_its_error(server: Fixture) {
    let client = connect(&server).await;
    hold_as_redisson(&server, "job", MINUTE);
    let began = Instant::now();
    let error = hasty(&client).await.unwrap_err();
    assert!(
        matches!(error, leasehold::Error::Run(RunError::Busy { wait, .. }) if wait == ms(300)),
        "{error:?}"
    );
    assert!(began.elapsed() >= ms(300));
    run_command(&server, &["DEL", "job"]);
    assert_eq!(hasty(&client).await.unwrap(), 2);
}

#[locked(name = "job", wait = "1h", client = client)]
async fn slow_to_give_up(client: &Client) -> Result<u32, RunError> {
    Ok(3)
}

async fn a_wait_is_served_after_the_release(server: Fixture) {
    let client = connect(&server).await;
    let guard = client.lock("job").lock().await.unwrap();
    let (outcome, released) =
        soon("both", async { tokio::join!(slow_to_give_up(&client), guard.release()) }).await;
    assert_eq!(outcome, Ok(3));
    released.unwrap();
    assert!(is_free(&server, "job"));
}

#[locked(name = "job", wait = "0s", client = client)]
async fn tries_once(client: &Client) -> Result<(), RunError> {
    Ok(())
}

async fn a_zero_wait_makes_one_attempt(server: Fixture) {
    let client = connect(&server).await;
    hold_as_redisson(&server, "job", MINUTE);
    let before = scripts_run(&server);
    assert!(matches!(tries_once(&client).await, Err(RunError::Busy { wait, .. }) if wait == Duration::ZERO));
    assert_eq!(scripts_run(&server), before + 1);
}

#[locked(name = "job", wait = "0s", on_busy = skip, client = client)]
async fn skipped(client: &Client) -> Result<Vec<u32>, RunError> {
    Ok(vec![4])
}

async fn a_busy_function_may_be_skipped(server: Fixture) {
    let client = connect(&server).await;
    assert_eq!(skipped(&client).await, Ok(vec![4]));
    hold_as_redisson(&server, "job", MINUTE);
    assert_eq!(skipped(&client).await, Ok(vec![]));
}

#[locked(name = "order:{order}", wait = "0s", on_busy = fallback(later::<T>), client = client)]
async fn charge<T>(client: &Client, mut order: u64, by: T) -> Result<String, RunError>
where
    T: AsRef<str> + ToString,
{
    order += 1;
    Ok(format!("charged {order} by {}", by.as_ref()))
}

async fn later<T: ToString>(_client: &Client, order: u64, by: T) -> Result<String, RunError> {
    Ok(format!("later {order} by {}", by.to_string()))
}

async fn a_busy_function_may_have_a_fallback(server: Fixture) {
    let client = connect(&server).await;
    assert_eq!(charge(&client, 41, "card").await.as_deref(), Ok("charged 42 by card"));
    hold_as_redisson(&server, "order:41", MINUTE);
    assert_eq!(charge(&client, 41, "card".to_owned()).await.as_deref(), Ok("later 41 by card"));
}

struct Till {
    locks: Client,
    sold: Vec<u64>,
}

impl Till {
    #[locked(name = "till", wait = "0s", on_busy = fallback(Self::note), client = self.locks)]
    async fn sell(&mut self, order: u64) -> Result<usize, RunError> {
        self.sold.push(order);
        Ok(self.sold.len())
    }

    async fn note(&mut self, order: u64) -> Result<usize, RunError> {
        self.sold.push(order * 1000);
        Ok(0)
    }
}

async fn a_busy_method_passes_self_to_its_fallback(server: Fixture) {
    let mut till = Till { locks: connect(&server).await, sold: Vec::new() };
    assert_eq!(till.sell(1).await, Ok(1));
    hold_as_redisson(&server, "till", MINUTE);
    assert_eq!(till.sell(2).await, Ok(0));
    assert_eq!(till.sold, [1, 2000]);
}

async fn other_errors_do_not_count_as_busy(server: Fixture) {
    let client = connect(&server).await;
    run_command(&server, &["SET", "job", "a text"]);
    assert!(matches!(skipped(&client).await, Err(RunError::Acquire(_))));
    client.close().await;
    assert!(matches!(skipped(&client).await, Err(RunError::Acquire(_))));
}
