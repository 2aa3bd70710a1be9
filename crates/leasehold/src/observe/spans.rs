//! The `tracing` spans, which only surround what a caller awaits.
//!
//! Invariant: a span ends with the future that it surrounds. A hold without a body has no span, because exporters write
//! a span when it ends, and the hold of a leader never does.

use std::borrow::Cow;
use std::future::Future;

use leasehold_proto::WireOwner;
use leasehold_proto::engine::Outcome;
#[cfg(feature = "tracing")]
use tracing::{Instrument, debug_span, field::Empty, instrument::Instrumented};

#[cfg(feature = "tracing")]
use super::fact;
use crate::error::{Forked, SubjectKind};

/// Awaits an acquire in its own span. The span of a dropped future has no outcome.
#[cfg(feature = "tracing")]
pub(crate) async fn acquiring(
    (kind, name): (&'static str, &str),
    ticket: impl Future<Output = Result<Outcome, Forked>>,
) -> Result<Outcome, Forked> {
    let span = debug_span!(
        target: "leasehold::acquire",
        "leasehold.acquire",
        lock.name = name,
        lock.kind = kind,
        lock.outcome = Empty,
        otel.kind = "internal"
    );
    let outcome = ticket.instrument(span.clone()).await;
    let label = match &outcome {
        Ok(Outcome::Acquired(Ok(_))) => "acquired",
        Ok(Outcome::Acquired(Err(failure))) => fact::Outcome::of(Some(failure), Default::default()).label(),
        _ => "refused",
    };
    span.record("lock.outcome", label);
    outcome
}

/// Awaits the outcome of an acquire.
#[cfg(not(feature = "tracing"))]
pub(crate) fn acquiring<F: Future<Output = Result<Outcome, Forked>>>(
    _: (&'static str, &str),
    ticket: F,
) -> F {
    ticket
}

/// What the span of a section says.
#[derive(Debug)]
#[cfg_attr(not(feature = "tracing"), expect(dead_code, reason = "only a span reads it"))]
pub struct Scene<'a> {
    pub(crate) kind: SubjectKind,
    pub(crate) name: Cow<'a, str>,
    /// The owner on the server, if the hold has one.
    pub(crate) owner: Option<WireOwner>,
    pub(crate) token: Option<u64>,
}

/// Runs the body of a section in a span of its own.
#[cfg(feature = "tracing")]
pub(crate) fn in_section<'a, F: Future>(scene: impl FnOnce() -> Scene<'a>, body: F) -> Instrumented<F> {
    let scene = scene();
    let span = debug_span!(
        target: "leasehold::hold",
        "leasehold.section",
        lock.name = &*scene.name,
        lock.kind = %scene.kind,
        lock.token = scene.token,
        lock.owner = scene.owner.map(display),
    );
    body.instrument(span)
}

/// Runs the body of a section.
#[cfg(not(feature = "tracing"))]
pub(crate) fn in_section<'a, F: Future>(_: impl FnOnce() -> Scene<'a>, body: F) -> F {
    body
}
