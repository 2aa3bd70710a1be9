//! Compiles the page of the documentation, and has tests of traces.
//!
#![doc = include_str!("../../../docs/observability/opentelemetry.md")]
