//! The examples of the pages, compiled and run by `cargo test --doc`.
//!
//! A crate of its own, because a published crate cannot include a file from outside of its package.

/// The examples of the README.
#[doc = include_str!("../../../README.md")]
#[cfg(doctest)]
struct Readme;

/// The examples of the page on the attribute.
#[doc = include_str!("../../../docs/attribute.md")]
#[cfg(doctest)]
struct Attribute;

/// The examples of the page on configuration.
#[doc = include_str!("../../../docs/configuration.md")]
#[cfg(doctest)]
struct Configuration;
