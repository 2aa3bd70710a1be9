//! A crate that allows nothing compiles, and its functions can be sent.
#![deny(warnings, unused, future_incompatible, rust_2018_idioms, unreachable_pub, unused_qualifications)]
#![deny(single_use_lifetimes, trivial_casts, unused_lifetimes, let_underscore_drop, missing_docs)]
#![forbid(unsafe_code)]
#![no_implicit_prelude]

use ::std::prelude::rust_2021::*;

/// Nothing of this name is meant by the attribute.
pub mod leasehold {
    /// Not this one.
    #[derive(Debug)]
    pub struct Client;
}

/// Neither are these.
#[allow(missing_docs, non_camel_case_types, dead_code)]
pub mod core {
    pub struct result;
}

/// An error of one's own.
#[derive(Debug)]
pub enum PayError {
    /// It did not run.
    NotLocked(::leasehold::RunError),
}

impl From<::leasehold::RunError> for PayError {
    fn from(error: ::leasehold::RunError) -> Self {
        Self::NotLocked(error)
    }
}

/// Documented.
#[::leasehold::locked(
    name = "order:{order_id}",
    kind = fenced,
    fence = token,
    wait = "5s",
    watchdog = "30s",
    max_renewals = 360,
    max_hold = "1h",
    min_hold = "5m",
    replicas = ::leasehold::Confirm::AtLeast(1),
    on_finish = release,
    on_busy = skip,
    on_lost = finish,
    client = client,
)]
pub async fn pay(client: &::leasehold::Client, order_id: u64, parts: &mut Vec<u64>) -> Result<u64, PayError> {
    parts.push(order_id);
    Ok(token)
}

/// With the client that is installed.
#[::leasehold::locked(name = "nightly", lease = "10m", on_finish = detach, wait = "0s", on_busy = fallback(not_now))]
pub async fn nightly<T: Send>(value: T) -> Result<T, PayError> {
    Ok(value)
}

/// Instead.
pub async fn not_now<T>(value: T) -> Result<T, PayError> {
    Ok(value)
}

/// Whatever it is.
pub fn sent<T: Send>(_: T) {}

/// Only compiled.
pub fn send(client: &::leasehold::Client) {
    sent(pay(client, 7, &mut Vec::new()));
    sent(nightly(String::new()));
}

fn main() {}
