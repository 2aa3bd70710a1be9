//! The sources of the client.

use std::sync::{Arc, Mutex};

use leasehold::{Client, RunError, locked};

use crate::support::{Fixture, connect, count, on_both};

on_both! {
    async {
        a_client_is_a_field_a_reference_or_a_pointer,
        a_client_can_come_from_a_function,
        a_client_can_come_from_a_mutex,
        a_renamed_library_is_found_at_the_given_path,
    }
}

#[derive(Clone)]
struct State {
    locks: Client,
}

#[locked(name = "job", client = state.locks)]
async fn of_field(state: State, look: impl Fn() -> u32) -> Result<u32, RunError> {
    drop(state);
    Ok(look())
}

#[locked(name = "job", client = &state.locks)]
async fn of_reference(state: &State, look: impl Fn() -> u32) -> Result<u32, RunError> {
    Ok(look())
}

#[locked(name = "job", client = client)]
async fn of_pointer(client: Arc<Client>, look: impl Fn() -> u32) -> Result<u32, RunError> {
    Ok(look())
}

async fn a_client_is_a_field_a_reference_or_a_pointer(server: Fixture) {
    let state = State { locks: connect(&server).await };
    let look = || count(&server, "job");
    assert_eq!(of_field(state.clone(), look).await, Ok(1));
    assert_eq!(of_reference(&state, look).await, Ok(1));
    assert_eq!(of_pointer(Arc::new(state.locks), look).await, Ok(1));
}

impl State {
    fn locks(&self) -> Client {
        self.locks.clone()
    }

    #[locked(name = "job", client = self.locks())]
    async fn of_method(&self, look: impl Fn() -> u32) -> Result<u32, RunError> {
        Ok(look())
    }
}

async fn a_client_can_come_from_a_function(server: Fixture) {
    let state = State { locks: connect(&server).await };
    assert_eq!(state.of_method(|| count(&server, "job")).await, Ok(1));
}

#[locked(name = "job", client = state.lock().unwrap().locks)]
async fn of_mutex(state: Arc<Mutex<State>>) -> Result<bool, RunError> {
    // The function drops the mutex guard of the client expression before the body runs.
    Ok(state.try_lock().is_ok())
}

async fn a_client_can_come_from_a_mutex(server: Fixture) {
    let state = Arc::new(Mutex::new(State { locks: connect(&server).await }));
    assert_eq!(tokio::spawn(of_mutex(state)).await.unwrap(), Ok(true));
}

/// The library under another path. One function differs, so the test sees which path the attribute uses.
mod vendored {
    pub(super) use leasehold::error::NotInstalled;
    pub(super) use leasehold::{__private, Client, OnFinish, OnLost, RunError};

    thread_local! {
        /// The client of the test that runs on this thread.
        pub(super) static CLIENT: std::cell::RefCell<Option<Client>> = const { std::cell::RefCell::new(None) };
    }

    pub(super) fn installed() -> Result<Client, NotInstalled> {
        CLIENT.with_borrow(Clone::clone).ok_or(NotInstalled)
    }
}

#[locked(
    name = "job",
    wait = "0s",
    on_busy = skip,
    on_finish = release,
    on_lost = finish,
    crate = vendored,
)]
async fn of_vendored(look: impl Fn() -> u32) -> Result<u32, RunError> {
    Ok(look())
}

async fn a_renamed_library_is_found_at_the_given_path(server: Fixture) {
    vendored::CLIENT.set(Some(connect(&server).await));
    assert_eq!(of_vendored(|| count(&server, "job")).await, Ok(1));
}
