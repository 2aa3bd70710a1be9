//! Functions that are not async, on threads of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use leasehold::blocking::Client;
use leasehold::error::Verb;
use leasehold::{LostReason, RunError, locked};
use leasehold_testkit::wait;

use crate::support::{
    Fixture, Monitor, SOON, count, fields, hold_as_redisson, is_free, ms, on_both, pttl, run_command,
    times_sent,
};

on_both! {
    sync {
        a_blocking_function_runs_under_its_lock,
        every_kind_blocks,
        a_busy_blocking_function_fails_skips_or_has_a_fallback,
        terms_hold_for_blocking_functions,
        a_blocking_body_runs_under_several_locks,
        a_thread_re_enters_and_other_threads_wait,
        a_question_mark_ends_the_blocking_body_and_releases_the_lock,
        a_panic_in_a_blocking_body_releases,
        a_blocking_body_ends_and_a_loss_replaces_its_value,
        a_blocking_body_that_may_finish_has_its_value,
        blocking_functions_of_every_signature_are_locked,
        both_apis_exclude_each_other,
        arguments_of_blocking_functions_are_dropped_under_the_lock,
    }
}

const MINUTE: Duration = Duration::from_secs(60);

fn connect(server: &Fixture) -> Client {
    Client::connect(&server.url()).unwrap()
}

/// Checks a condition repeatedly, on a thread that may block.
#[track_caller]
fn eventually(what: &str, condition: impl FnMut() -> bool) {
    wait::eventually(SOON, what, condition);
}

#[locked(name = "order:{order}", client = client)]
fn charge(client: &Client, order: u64, look: impl FnOnce() -> u32) -> Result<u32, RunError> {
    Ok(look())
}

fn a_blocking_function_runs_under_its_lock(server: Fixture) {
    let client = connect(&server);
    assert_eq!(charge(&client, 7, || count(&server, "order:7")), Ok(1));
    assert!(is_free(&server, "order:7"));
}

#[locked(name = "job", kind = fair, client = client)]
fn fair(client: &Client) -> Result<(), RunError> {
    Ok(())
}

#[locked(name = "job", kind = fenced, fence = token, client = client)]
fn fenced(client: &Client) -> Result<u64, RunError> {
    Ok(token)
}

#[locked(name = "job", kind = read, client = client)]
fn read(client: &Client, look: impl FnOnce() -> String) -> Result<String, RunError> {
    Ok(look())
}

#[locked(name = "job", kind = write, client = client)]
fn write(client: &Client, look: impl FnOnce() -> String) -> Result<String, RunError> {
    Ok(look())
}

#[locked(name = "seats", kind = semaphore(2), client = client)]
fn seated(client: &Client, look: impl FnOnce() -> String) -> Result<String, RunError> {
    Ok(look())
}

fn every_kind_blocks(server: Fixture) {
    let client = connect(&server);
    assert_eq!((fenced(&client), fenced(&client)), (Ok(1), Ok(2)));
    let mode = || server.cli(&["HGET", "job", "mode"]);
    assert_eq!(read(&client, mode).as_deref(), Ok("read"));
    eventually("the release", || is_free(&server, "job"));
    assert_eq!(write(&client, mode).as_deref(), Ok("write"));
    assert_eq!(seated(&client, || server.cli(&["ZCARD", "{seats}:timeout"])).as_deref(), Ok("1"));
    let guard = client.fair_lock("job").lock().unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| fair(&client));
        eventually("a waiter in the queue", || server.cli(&["LLEN", "redisson_lock_queue:{job}"]) == "1");
        guard.release().unwrap();
        assert_eq!(waiting.join().unwrap(), Ok(()));
    });
}

#[locked(name = "job", wait = "300ms", client = client)]
fn hasty(client: &Client) -> Result<u32, RunError> {
    Ok(1)
}

#[locked(name = "job", wait = "0s", on_busy = skip, client = client)]
fn skipped(client: &Client) -> Result<Option<u32>, RunError> {
    Ok(Some(2))
}

#[locked(name = "job", wait = "0s", on_busy = fallback(later), client = client)]
fn now(client: &Client, text: String) -> Result<String, RunError> {
    Ok(format!("now {text}"))
}

fn later(_client: &Client, text: String) -> Result<String, RunError> {
    Ok(text + " later")
}

fn a_busy_blocking_function_fails_skips_or_has_a_fallback(server: Fixture) {
    let client = connect(&server);
    assert_eq!(now(&client, "this".to_owned()).as_deref(), Ok("now this"));
    hold_as_redisson(&server, "job", MINUTE);
    assert!(matches!(hasty(&client), Err(RunError::Busy { wait, .. }) if wait == ms(300)));
    assert_eq!(skipped(&client), Ok(None));
    assert_eq!(now(&client, "this".to_owned()).as_deref(), Ok("this later"));
}

#[locked(name = "job", lease = "10m", on_finish = detach, client = client)]
fn kept(client: &Client) -> Result<(), RunError> {
    Ok(())
}

#[locked(name = "other", watchdog = "2s", max_hold = "1h", max_renewals = 1000, min_hold = "400ms", client = client)]
fn watched(client: &Client, server: &Fixture, monitor: &Monitor) -> Result<(), RunError> {
    // Renewals are a third of the lease apart.
    eventually("renewals for longer than a lease", || times_sent(monitor, Verb::Renew) >= 4);
    assert!(pttl(server, "other") > 0);
    Ok(())
}

fn terms_hold_for_blocking_functions(server: Fixture) {
    let client = connect(&server);
    assert_eq!(kept(&client), Ok(()));
    assert!((590_000..=600_000).contains(&pttl(&server, "job")));
    let monitor = Monitor::start(&server);
    assert_eq!(watched(&client, &server, &monitor), Ok(()));
    assert!(is_free(&server, "other"), "held for its least time, and released");
}

#[locked(name = ["account:{from}", "account:{to}"], wait = "0s", client = client)]
fn transfer<T>(client: &Client, from: u32, to: u32, look: impl FnOnce() -> T) -> Result<T, RunError> {
    Ok(look())
}

fn a_blocking_body_runs_under_several_locks(server: Fixture) {
    let client = connect(&server);
    let free = || [1, 2].map(|account| is_free(&server, &format!("account:{account}")));
    assert_eq!(transfer(&client, 1, 2, free), Ok([false, false]));
    assert_eq!(free(), [true, true]);
    hold_as_redisson(&server, "account:2", MINUTE);
    let busy = transfer(&client, 1, 2, free).unwrap_err();
    assert!(busy.is_busy(), "{busy}");
}

#[locked(name = "job", client = client)]
fn outer(client: &Client, server: &Fixture) -> Result<(u32, u32), RunError> {
    Ok((count(server, "job"), inner(client, server)?))
}

#[locked(name = "job", client = client)]
fn inner(client: &Client, server: &Fixture) -> Result<u32, RunError> {
    Ok(count(server, "job"))
}

#[locked(name = "job", client = client)]
fn alone(client: &Client, inside: &AtomicU32) -> Result<u32, RunError> {
    let found = inside.fetch_add(1, Ordering::SeqCst);
    thread::yield_now();
    inside.fetch_sub(1, Ordering::SeqCst);
    Ok(found)
}

fn a_thread_re_enters_and_other_threads_wait(server: Fixture) {
    let client = connect(&server);
    assert_eq!(outer(&client, &server), Ok((1, 2)));
    let inside = AtomicU32::new(0);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| alone(&client, &inside))).collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), Ok(0));
        }
    });
}

#[locked(name = "job", client = client)]
fn parsed(client: &Client, text: &str) -> Result<u64, Box<dyn std::error::Error>> {
    let number: u64 = text.parse()?;
    if number == 0 {
        return Err("nothing".into());
    }
    Ok(number)
}

fn a_question_mark_ends_the_blocking_body_and_releases_the_lock(server: Fixture) {
    let client = connect(&server);
    assert_eq!(parsed(&client, "42").unwrap(), 42);
    for bad in ["a lot", "0"] {
        assert!(parsed(&client, bad).is_err());
        assert!(is_free(&server, "job"));
    }
    client.close();
    assert!(parsed(&client, "42").unwrap_err().is::<RunError>());
}

#[locked(name = "job", client = client)]
fn panics(client: &Client) -> Result<(), RunError> {
    panic!("as it should")
}

fn a_panic_in_a_blocking_body_releases(server: Fixture) {
    let client = connect(&server);
    let outcome = thread::scope(|scope| scope.spawn(|| panics(&client)).join());
    assert!(outcome.is_err());
    eventually("the release", || is_free(&server, "job"));
}

#[locked(name = "job", watchdog = "3s", client = client)]
fn loses(client: &Client, server: &Fixture, ended: &AtomicBool) -> Result<u32, RunError> {
    run_command(server, &["DEL", "job"]);
    ended.store(true, Ordering::SeqCst);
    Ok(1)
}

#[locked(name = "job", watchdog = "3s", on_lost = finish, client = client)]
fn loses_and_does_not_mind(client: &Client, server: &Fixture) -> Result<u32, RunError> {
    run_command(server, &["DEL", "job"]);
    Ok(2)
}

fn a_blocking_body_ends_and_a_loss_replaces_its_value(server: Fixture) {
    let (client, ended) = (connect(&server), AtomicBool::new(false));
    let outcome = loses(&client, &server, &ended);
    assert!(matches!(outcome, Err(RunError::Lost { reason: LostReason::Deleted, .. })));
    assert!(ended.load(Ordering::SeqCst));
}

fn a_blocking_body_that_may_finish_has_its_value(server: Fixture) {
    assert_eq!(loses_and_does_not_mind(&connect(&server), &server), Ok(2));
}

struct Service {
    locks: Client,
    calls: u32,
}

impl Service {
    #[locked(name = "job:{self.calls}", client = self.locks)]
    fn by_reference<'a>(&self, one: &'a str, other: &'a str) -> Result<&'a str, RunError> {
        Ok(if one.len() < other.len() { other } else { one })
    }

    #[locked(name = "job", wait = "1m", on_busy = fallback(Self::by_mutable_reference_later), client = self.locks)]
    fn by_mutable_reference(&mut self) -> Result<&mut u32, RunError> {
        self.calls += 1;
        Ok(&mut self.calls)
    }

    const fn by_mutable_reference_later(&mut self) -> Result<&mut u32, RunError> {
        Ok(&mut self.calls)
    }

    #[locked(name = "job", client = self.locks)]
    fn by_pointer(self: Arc<Self>) -> Result<Arc<Self>, RunError> {
        Ok(self)
    }

    #[locked(name = "job:{N}", client = self.locks)]
    fn opaque<const N: usize, T>(
        &self,
        mut all: Vec<T>,
        [first, _]: [T; 2],
    ) -> Result<impl Iterator<Item = T> + use<N, T>, RunError>
    where
        T: Clone,
    {
        all.push(first);
        Ok(all.into_iter().take(N))
    }
}

fn blocking_functions_of_every_signature_are_locked(server: Fixture) {
    let mut service = Service { locks: connect(&server), calls: 0 };
    assert_eq!(service.by_reference("one", "other"), Ok("other"));
    *service.by_mutable_reference().unwrap() += 1;
    assert_eq!(service.opaque::<3, _>(vec![1, 2], [3, 4]).unwrap().collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(Arc::new(service).by_pointer().unwrap().calls, 2);
}

#[locked(name = "job", wait = "0s", client = client)]
async fn in_async_code(client: leasehold::Client) -> Result<(), RunError> {
    Ok(())
}

#[locked(name = "job", client = client)]
fn runs_async_code(client: &Client, server: &Fixture) -> Result<(), RunError> {
    assert_eq!(fields(server, "job").len(), 1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let url = server.url();
    runtime.block_on(async { in_async_code(leasehold::Client::connect(&url).await.unwrap()).await })
}

fn both_apis_exclude_each_other(server: Fixture) {
    let outcome = runs_async_code(&connect(&server), &server);
    assert!(matches!(outcome, Err(RunError::Busy { wait, .. }) if wait == ms(0)));
}

#[locked(name = "job", client = client)]
fn unused(client: &Client, _noted: Noted<'_>) -> Result<(), RunError> {
    Ok(())
}

/// An argument that notes, when it is dropped, whether the lock exists.
struct Noted<'a>(&'a Fixture, &'a AtomicU32);

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        self.1.store(u32::from(!is_free(self.0, "job")), Ordering::SeqCst);
    }
}

fn arguments_of_blocking_functions_are_dropped_under_the_lock(server: Fixture) {
    let (client, seen) = (connect(&server), AtomicU32::new(0));
    unused(&client, Noted(&server, &seen)).unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), 1);
}
