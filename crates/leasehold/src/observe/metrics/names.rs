//! The names of the metrics, their buckets, their descriptions and the values of their labels.

use leasehold_proto::Verb;
use leasehold_proto::engine::LostReason;
use metrics::{KeyName, Unit, with_recorder};

// Dashboards and alerts name these metrics (`docs/observability`), so a name never changes.
pub(super) const ACQUIRES: &str = "leasehold_acquires_total";
pub(super) const WAIT: &str = "leasehold_wait_seconds";
pub(super) const HOLD: &str = "leasehold_hold_seconds";
pub(super) const HELD: &str = "leasehold_held";
pub(super) const WAITING: &str = "leasehold_waiting";
pub(super) const WAITING_LONG: &str = "leasehold_waiting_long";
pub(super) const LOST: &str = "leasehold_lost_total";
pub(super) const RENEWALS: &str = "leasehold_renewals_total";
pub(super) const LEASE_LEFT: &str = "leasehold_lease_left_ratio";
pub(super) const UNKNOWN: &str = "leasehold_unknown_total";
pub(super) const UNDONE: &str = "leasehold_undone_total";
pub(super) const UNCONFIRMED: &str = "leasehold_unconfirmed_total";
pub(super) const CALL: &str = "leasehold_call_seconds";
pub(super) const CONNECTED: &str = "leasehold_connected";
pub(super) const RECONNECTS: &str = "leasehold_reconnects_total";
pub(super) const INFO: &str = "leasehold_client_info";
pub(super) const DROPPED: &str = "leasehold_facts_dropped_total";

/// The buckets of the histograms, by name, for the exporter. The Prometheus exporter makes summaries of histograms without
/// buckets, which cannot be added up over processes.
///
/// # Examples
/// ```
/// use leasehold::observe::BUCKETS;
/// use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
///
/// # fn main() -> Result<(), metrics_exporter_prometheus::BuildError> {
/// let mut builder = PrometheusBuilder::new();
/// for (name, buckets) in BUCKETS {
///     builder = builder.set_buckets_for_metric(Matcher::Full((*name).to_owned()), buckets)?;
/// }
/// let handle = builder.install_recorder().expect("no other recorder is installed");
/// assert!(!handle.render().contains("summary"));
/// # Ok(())
/// # }
/// ```
pub const BUCKETS: &[(&str, &[f64])] = &[
    (
        WAIT,
        &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0],
    ),
    (HOLD, &[0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0]),
    // A renewal that is on time leaves two thirds.
    (LEASE_LEFT, &[0.05, 0.1, 0.2, 0.33, 0.5, 0.6, 0.7]),
    (CALL, &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0]),
];

/// The type of a metric, and what its description says.
pub(super) enum Metric {
    Counter(&'static str),
    Gauge(&'static str),
    Seconds(&'static str),
    Ratio(&'static str),
}

/// All metrics.
pub(super) const METRICS: [(&str, Metric); 17] = [
    (ACQUIRES, Metric::Counter("Acquires that have ended, by outcome")),
    (WAIT, Metric::Seconds("Time from the request of a lock to its grant")),
    (HOLD, Metric::Seconds("Time from the grant of a lock to its release or loss")),
    (HELD, Metric::Gauge("Locks and permits that this process holds")),
    (WAITING, Metric::Gauge("Acquires of this process that wait")),
    (
        WAITING_LONG,
        Metric::Gauge("Names for which an acquire has waited for longer than the patience of the client"),
    ),
    (LOST, Metric::Counter("Holds that were lost, by reason")),
    (RENEWALS, Metric::Counter("Renewals, by outcome")),
    (LEASE_LEFT, Metric::Ratio("Part of the lease that was left when a renewal was confirmed")),
    (UNKNOWN, Metric::Counter("Calls that the server may or may not have applied")),
    (UNDONE, Metric::Counter("Acquires without a caller that were taken back")),
    (UNCONFIRMED, Metric::Counter("Releases that the server did not confirm at once")),
    (CALL, Metric::Seconds("Time from the send of a call to its answer")),
    (CONNECTED, Metric::Gauge("Connections that serve")),
    (RECONNECTS, Metric::Counter("Connections that took the place of an earlier one to the same server")),
    (INFO, Metric::Gauge("The version and the servers of the clients")),
    (DROPPED, Metric::Counter("Facts that no observer was told, because one stood still")),
];

/// Describes all metrics to the recorder.
pub(super) fn describe() {
    with_recorder(|recorder| {
        for (name, metric) in METRICS {
            let name = KeyName::from_const_str(name);
            // Other units would become suffixes of the names in some exporters.
            match metric {
                Metric::Counter(text) => recorder.describe_counter(name, None, text.into()),
                Metric::Gauge(text) => recorder.describe_gauge(name, None, text.into()),
                Metric::Seconds(text) => recorder.describe_histogram(name, Some(Unit::Seconds), text.into()),
                Metric::Ratio(text) => recorder.describe_histogram(name, None, text.into()),
            }
        }
    });
}

/// The values of the label `outcome` of an acquire. The first one is for a grant.
pub(super) const OUTCOMES: [&str; 9] =
    ["acquired", "busy", "timeout", "cancelled", "unavailable", "unknown", "deadlock", "closed", "refused"];
/// The values of the label `reason` of a loss.
pub(super) const REASONS: [&str; 7] =
    ["own_terms", "taken_over", "deleted", "unreachable", "silent", "closed", OTHER];
/// The reasons that neither the terms of a hold nor the end of its client explain.
pub(super) const UNPLANNED: [&str; 3] = ["taken_over", "deleted", "unreachable"];
/// The values of the label `outcome` of a renewal.
pub(super) const RENEWAL_OUTCOMES: [&str; 2] = ["confirmed", "failed"];
/// The values of the label `outcome` of a call.
pub(super) const CALL_OUTCOMES: [&str; 2] = ["ok", "error"];
/// The values of the label `connection`, in the order of their type.
pub(super) const CONNECTIONS: [&str; 3] = ["command", "confirmed", "pubsub"];
/// The values of the label `verb`.
pub(super) const VERBS: [&str; 8] =
    [ACQUIRE, "renew", "hand_off", RELEASE, "keep_alive", "force_release", "adjust", OTHER];
pub(super) const ACQUIRE: &str = "acquire";
pub(super) const RELEASE: &str = "release";
/// The label value for everything without a value of its own.
pub(super) const OTHER: &str = "other";

/// Returns the label of a reason.
pub(super) const fn reason_label(reason: LostReason) -> &'static str {
    match reason {
        LostReason::TakenOver => "taken_over",
        LostReason::Deleted => "deleted",
        LostReason::Unreachable => "unreachable",
        LostReason::Silent => "silent",
        LostReason::Closed => "closed",
        reason if reason.is_by_own_terms() => "own_terms",
        _ => OTHER,
    }
}

/// Returns the label of a verb.
pub(super) const fn verb_label(verb: Verb) -> &'static str {
    match verb {
        Verb::Acquire => ACQUIRE,
        Verb::Renew => "renew",
        Verb::HandOff => "hand_off",
        Verb::Release => RELEASE,
        Verb::KeepAlive => "keep_alive",
        Verb::ForceRelease => "force_release",
        Verb::Adjust => "adjust",
        _ => OTHER,
    }
}

/// Returns the place of a label among these, of which the last stands for all others.
pub(super) fn place(labels: &[&'static str], label: &str) -> usize {
    labels.iter().position(|known| *known == label).unwrap_or(labels.len() - 1)
}
