//! The attribute: every option by its state on the server or its effect, and every shape of function.

// The attribute's expansion must pass all lints that its users turn on.
#![warn(clippy::pedantic, clippy::nursery)]
#![warn(unused, let_underscore, unreachable_pub, unused_qualifications)]
#![allow(clippy::missing_errors_doc, clippy::missing_panics_doc, reason = "tests have no documentation")]
#![allow(clippy::future_not_send, reason = "of tests, which hold whatever they like")]
#![allow(clippy::large_futures, clippy::unused_async, clippy::items_after_statements, reason = "of tests")]
#![allow(clippy::needless_pass_by_value, clippy::unnecessary_wraps, reason = "of tests")]

#[cfg(feature = "blocking")]
mod blocking;
mod clients;
mod ends;
mod kinds;
mod names;
mod several;
mod signatures;
mod terms;
mod waits;
