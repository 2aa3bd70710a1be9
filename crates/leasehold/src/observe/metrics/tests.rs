//! The series of facts, in recorders of tests.

use std::cell::Cell;
use std::fs;
use std::path::Path;

use leasehold_proto::engine::LostReason;
use leasehold_proto::{FreeWithin, Moment, StoreErrorKind, Verb};
use metrics::{Unit, with_local_recorder};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use super::names::{METRICS, Metric};
use super::*;
use crate::observe::fact::Connection;
use crate::observe::groups;

const KINDS: [&str; 5] = ["lock", "fair lock", "fenced lock", "read lock", "write lock"];
const MS: Duration = Duration::from_millis(1);

thread_local! {
    static NOW: Cell<Moment> = const { Cell::new(Moment::from_millis(0)) };
}

fn observer(registry: &Arc<Registry>, chosen: &[&str]) -> Metrics {
    let chosen = Arc::new(chosen.iter().map(|name| (*name).to_owned()).collect());
    Metrics::counting_in(registry, "redis://host", Confirm::None, &chosen)
}

impl Metrics {
    fn tell(&self, kind: &'static str, name: &str, what: What<'_>) {
        let group = if self.chosen.contains(name) { name.into() } else { groups::of_name(name) };
        let (name, group) = (Some(name), Some(&*group));
        self.fact(&Fact { name, kind: Some(kind), group, dropped: 0, at: NOW.get(), what });
    }

    fn tell_of_none(&self, what: What<'_>, dropped: u64) {
        self.fact(&Fact { name: None, kind: None, group: None, dropped, at: NOW.get(), what });
    }
}

fn acquired(was_waiting: bool, was_patient: bool) -> What<'static> {
    let (waited, attempts, by, token, owner) = (20 * MS, 1, GrantedBy::Server, None, "");
    What::Acquired { waited, attempts, by, token, owner, was_waiting, was_patient }
}

fn not_acquired(outcome: Outcome) -> What<'static> {
    let (waited, attempts, was_waiting, was_patient) = (MS, 1, false, false);
    What::NotAcquired { waited, attempts, outcome, free_within: None, was_waiting, was_patient }
}

const fn lost(reason: LostReason) -> What<'static> {
    What::Lost { held: MS, reason, late: Duration::ZERO }
}

const FREE: FreeWithin = FreeWithin::Time(MS);
const RELEASED: What<'static> = What::Released { held: MS, detached: false };

const OUTCOMES: [Outcome; 8] = [
    Outcome::Busy,
    Outcome::Timeout,
    Outcome::Cancelled,
    Outcome::Unavailable,
    Outcome::Unknown,
    Outcome::Deadlock,
    Outcome::Closed,
    Outcome::Refused,
];
const REASONS: [LostReason; 8] = [
    LostReason::Expired,
    LostReason::MaxHold,
    LostReason::MaxRenewals,
    LostReason::Silent,
    LostReason::TakenOver,
    LostReason::Deleted,
    LostReason::Unreachable,
    LostReason::Closed,
];

/// Returns each series of a recorder as a line.
fn transcript(recorder: &DebuggingRecorder) -> Vec<String> {
    let series = recorder.snapshotter().snapshot().into_vec().into_iter().map(|(key, _, _, value)| {
        let key = key.key();
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let value = match value {
            DebugValue::Counter(count) => count.to_string(),
            DebugValue::Gauge(value) => value.to_string(),
            DebugValue::Histogram(values) => {
                format!("{:?}", values.iter().map(|value| value.0).collect::<Vec<_>>())
            }
        };
        format!("{} {}: {value}", key.name(), labels.join(" "))
    });
    let mut lines: Vec<_> = series.collect();
    lines.sort();
    lines
}

/// Returns the lines about this name of a metric.
fn lines(recorder: &DebuggingRecorder, name: &str) -> Vec<String> {
    let all = transcript(recorder).into_iter();
    all.filter_map(|line| Some(line.strip_prefix(name)?.trim().to_owned())).collect()
}

#[test]
fn each_outcome_of_an_acquire_has_its_counter() {
    let recorder = DebuggingRecorder::new();
    let metrics = observer(&Arc::default(), &[]);
    with_local_recorder(&recorder, || {
        metrics.tell("lock", "order:42", acquired(false, false));
        OUTCOMES.into_iter().for_each(|outcome| metrics.tell("lock", "order:42", not_acquired(outcome)));
    });
    let labels = OUTCOMES.map(Outcome::label).into_iter().chain(["acquired"]);
    let mut expected: Vec<_> =
        labels.map(|label| format!("kind=lock group=order:* outcome={label}: 1")).collect();
    expected.sort();
    let snapshot = transcript(&recorder);
    let of = |name: &str| -> Vec<_> { snapshot.iter().filter_map(|line| line.strip_prefix(name)).collect() };
    assert_eq!(of("leasehold_acquires_total "), expected);
    assert_eq!(of("leasehold_wait_seconds "), ["kind=lock group=order:*: [0.02]"]);
    assert_eq!(of("leasehold_held "), ["kind=lock group=order:*: 1"]);
    assert_eq!(of("leasehold_unknown_total "), ["verb=acquire: 1"]);
}

#[test]
fn gauges_follow_a_wait_and_a_hold() {
    let recorder = prometheus(false);
    let metrics = observer(&Arc::default(), &[]);
    let tell = |what| metrics.tell("lock", "job", what);
    let gauges = || {
        let page = recorder.handle().render();
        ["held", "waiting", "waiting_long"].map(|name| {
            let series = format!("leasehold_{name}{{kind=\"lock\",group=\"job\"}} ");
            page.lines().find_map(|line| line.strip_prefix(&series)).unwrap_or("absent").to_owned()
        })
    };
    with_local_recorder(&recorder, || {
        tell(What::Waiting);
        assert_eq!(gauges(), ["absent", "1", "absent"]);
        tell(What::Patient { waited: MS, holder: None, is_own: false, again: false });
        tell(What::Patient { waited: MS, holder: None, is_own: false, again: true });
        assert_eq!(gauges(), ["absent", "1", "1"]);
        tell(acquired(true, true));
        assert_eq!(gauges(), ["1", "0", "0"]);
        tell(lost(LostReason::Deleted));
        assert_eq!(gauges(), ["0", "0", "0"]);
        tell(What::Waiting);
        tell(What::NotAcquired {
            waited: MS,
            attempts: 1,
            outcome: Outcome::Timeout,
            free_within: None,
            was_waiting: true,
            was_patient: false,
        });
        assert_eq!(gauges(), ["0", "0", "0"]);
    });
}

#[test]
fn each_fact_of_a_hold_has_its_series() {
    let recorder = DebuggingRecorder::new();
    let metrics = observer(&Arc::default(), &[]);
    let tell = |what| metrics.tell("lock", "job", what);
    with_local_recorder(&recorder, || {
        tell(acquired(false, false));
        tell(What::Renewed { left: 0.5, took: MS });
        tell(What::NotRenewed { left: 0.3, failures: 1, error: StoreErrorKind::Timeout });
        tell(lost(LostReason::Deleted));
        tell(acquired(false, false));
        tell(RELEASED);
        tell(What::Unconfirmed { free_within: FREE, error: StoreErrorKind::Timeout });
        tell(What::Undone { settled: false });
        tell(What::Undone { settled: true });
        // The opening of a latch, which is no hold.
        tell(What::Acquired {
            waited: MS,
            attempts: 1,
            by: GrantedBy::Event,
            token: None,
            owner: "",
            was_waiting: false,
            was_patient: false,
        });
        metrics.tell_of_none(What::Called { verb: Verb::HandOff, took: MS, error: None }, 3);
        let error = Some(StoreErrorKind::Timeout);
        metrics.tell_of_none(What::Called { verb: Verb::Renew, took: MS, error }, 5);
        for again in [false, true] {
            let (server, port, connection) = ("host", Some(6379), Connection::Commands);
            metrics.tell_of_none(What::Connected { server, port, connection, again, moved: false }, 5);
        }
        let (server, port, connection) = ("host", Some(6379), Connection::Commands);
        metrics.tell_of_none(What::Disconnected { server, port, connection, by_server: true }, 5);
    });
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!(
        "leasehold_acquires_total kind=lock group=job outcome=acquired: 3
leasehold_call_seconds verb=hand_off outcome=ok: [0.001]
leasehold_call_seconds verb=renew outcome=error: [0.001]
leasehold_client_info version={version} topology=single tier=unconfirmed: 1
leasehold_connected connection=command: 1
leasehold_connected connection=confirmed: 0
leasehold_connected connection=pubsub: 0
leasehold_facts_dropped_total : 5
leasehold_held kind=lock group=job: 0
leasehold_hold_seconds kind=lock group=job: [0.001, 0.001]
leasehold_lease_left_ratio : [0.5]
leasehold_lost_total kind=lock group=job reason=deleted: 1
leasehold_lost_total kind=lock group=job reason=taken_over: 0
leasehold_lost_total kind=lock group=job reason=unreachable: 0
leasehold_reconnects_total connection=command: 1
leasehold_reconnects_total connection=confirmed: 0
leasehold_reconnects_total connection=pubsub: 0
leasehold_renewals_total outcome=confirmed: 1
leasehold_renewals_total outcome=failed: 1
leasehold_unconfirmed_total verb=release: 1
leasehold_undone_total verb=acquire: 1
leasehold_unknown_total verb=acquire: 0
leasehold_wait_seconds kind=lock group=job: [0.02, 0.02, 0.001]"
    );
    assert_eq!(transcript(&recorder).join("\n"), expected);
}

#[test]
fn a_recorder_that_comes_after_the_client_gets_its_series() {
    let metrics = observer(&Arc::default(), &[]);
    metrics.tell("lock", "job", acquired(false, false));
    metrics.tell("lock", "report", acquired(false, false));
    let recorder = DebuggingRecorder::new();
    with_local_recorder(&recorder, || {
        NOW.set(NOW.get() + KEPT);
        metrics.tell("lock", "job", acquired(false, false));
    });
    let all = transcript(&recorder);
    assert!(all.contains(&"leasehold_held kind=lock group=job: 2".to_owned()), "{all:#?}");
    assert!(all.contains(&"leasehold_held kind=lock group=report: 1".to_owned()), "{all:#?}");
    assert!(all.iter().any(|line| line.starts_with("leasehold_client_info ")), "{all:#?}");
    let hours_later = DebuggingRecorder::new();
    with_local_recorder(&hours_later, || {
        metrics.tell("lock", "job", acquired(false, false));
        assert!(transcript(&hours_later).is_empty(), "handles are kept");
        NOW.set(NOW.get() + KEPT);
        metrics.tell("lock", "job", acquired(false, false));
    });
    let all = transcript(&hours_later);
    assert!(
        all.contains(&"leasehold_acquires_total kind=lock group=job outcome=acquired: 1".to_owned()),
        "{all:#?}"
    );
    assert!(all.contains(&"leasehold_held kind=lock group=job: 4".to_owned()), "{all:#?}");
}

fn prometheus(recommended_naming: bool) -> PrometheusRecorder {
    let mut builder = PrometheusBuilder::new().with_recommended_naming(recommended_naming);
    for (name, buckets) in BUCKETS {
        builder = builder.set_buckets_for_metric(Matcher::Full((*name).to_owned()), buckets).unwrap();
    }
    builder.build_recorder()
}

/// Tells every fact that has a series of its own.
fn tell_everything(metrics: &Metrics, kind: &'static str, name: &str) {
    let tell = |what| metrics.tell(kind, name, what);
    tell(What::Waiting);
    tell(What::Patient { waited: MS, holder: None, is_own: false, again: false });
    tell(acquired(true, true));
    tell(RELEASED);
    OUTCOMES.into_iter().for_each(|outcome| tell(not_acquired(outcome)));
    for reason in REASONS {
        tell(acquired(false, false));
        tell(lost(reason));
    }
    tell(What::Renewed { left: 0.5, took: MS });
    tell(What::NotRenewed { left: 0.3, failures: 1, error: StoreErrorKind::Timeout });
    tell(What::Unconfirmed { free_within: FREE, error: StoreErrorKind::Timeout });
    tell(What::Undone { settled: true });
    // The verbs of the engine's calls.
    let verbs = [Verb::Acquire, Verb::Renew, Verb::HandOff, Verb::Release, Verb::KeepAlive, Verb::Adjust];
    for verb in verbs {
        for error in [None, Some(StoreErrorKind::Timeout)] {
            metrics.tell_of_none(What::Called { verb, took: MS, error }, 1);
        }
    }
}

#[test]
fn a_million_names_of_five_kinds_have_1500_series() {
    let recorder = prometheus(false);
    let metrics = observer(&Arc::default(), &[]);
    with_local_recorder(&recorder, || {
        for number in 0_usize..1_000_000 {
            // Every name is in a group of its own.
            let letters: String =
                number.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect();
            let (name, kind) = (format!("{letters}:42"), KINDS[number % KINDS.len()]);
            if number < 1_000 {
                tell_everything(&metrics, kind, &name);
            } else {
                metrics.tell(kind, &name, not_acquired(OUTCOMES[number % OUTCOMES.len()]));
            }
        }
    });
    let rendered = recorder.handle().render();
    let series = rendered.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count();
    assert!((1_400..=1_500).contains(&series), "{series} series");
    for kind in KINDS {
        let other = format!("leasehold_acquires_total{{kind=\"{kind}\",group=\"other\",outcome=\"busy\"}}");
        assert!(rendered.contains(&other), "{other}");
    }
}

#[test]
fn a_chosen_name_has_its_own_series_beyond_the_limit() {
    let recorder = DebuggingRecorder::new();
    let metrics = observer(&Arc::default(), &["nightly-report-2"]);
    with_local_recorder(&recorder, || {
        for letter in 'a'..='z' {
            metrics.tell("lock", &letter.to_string(), acquired(false, false));
        }
        metrics.tell("lock", "nightly-report-2", acquired(false, false));
        metrics.tell("lock", "other", acquired(false, false));
    });
    let held = lines(&recorder, "leasehold_held ");
    assert_eq!(held.len(), series::PAIRS_MAX + 2, "{held:#?}");
    assert!(held.contains(&"kind=lock group=nightly-report-2: 1".to_owned()), "{held:#?}");
    let others = 26 - series::PAIRS_MAX + 1;
    assert!(held.contains(&format!("kind=lock group=other: {others}")), "{held:#?}");
}

#[test]
fn gauges_are_right_after_many_threads() {
    let recorder = DebuggingRecorder::new();
    let metrics = observer(&Arc::default(), &[]);
    let work = || {
        with_local_recorder(&recorder, || {
            for _ in 0..2_000 {
                metrics.tell("lock", "job", acquired(false, false));
                metrics.tell("lock", "job", RELEASED);
            }
            metrics.tell("lock", "job", acquired(false, false));
        });
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(work);
        }
    });
    assert_eq!(lines(&recorder, "leasehold_held "), ["kind=lock group=job: 4"]);
}

/// Returns the names of the exporter's page, with their types.
fn exported(recommended_naming: bool) -> Vec<String> {
    let recorder = prometheus(recommended_naming);
    with_local_recorder(&recorder, || tell_everything(&observer(&Arc::default(), &[]), "lock", "job"));
    let rendered = recorder.handle().render();
    let mut names: Vec<_> =
        rendered.lines().filter_map(|line| Some(line.strip_prefix("# TYPE ")?.to_owned())).collect();
    names.sort();
    names
}

#[test]
fn names_are_the_same_with_and_without_the_exporters_naming() {
    let mut expected: Vec<_> = METRICS
        .iter()
        .map(|(name, metric)| match metric {
            Metric::Counter(_) => format!("{name} counter"),
            Metric::Gauge(_) => format!("{name} gauge"),
            Metric::Seconds(_) | Metric::Ratio(_) => format!("{name} histogram"),
        })
        .collect();
    expected.sort();
    assert_eq!(exported(false), expected);
    assert_eq!(exported(true), expected);
    for (name, metric) in METRICS {
        let suffix = match metric {
            Metric::Counter(_) => "_total",
            Metric::Gauge(_) => "",
            Metric::Seconds(_) => "_seconds",
            Metric::Ratio(_) => "_ratio",
        };
        assert!(name.ends_with(suffix), "{name}");
    }
}

#[test]
fn metrics_are_described_with_their_units() {
    let recorder = DebuggingRecorder::new();
    with_local_recorder(&recorder, || tell_everything(&observer(&Arc::default(), &[]), "lock", "job"));
    for (key, unit, text, _) in recorder.snapshotter().snapshot().into_vec() {
        let name = key.key().name();
        assert!(text.is_some_and(|text| !text.is_empty()), "{name}");
        assert_eq!(unit, name.ends_with("_seconds").then_some(Unit::Seconds), "{name}");
    }
}

#[test]
fn the_dashboard_and_the_alerts_name_only_metrics_that_exist() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/observability");
    let dashboard: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.join("dashboard.json")).unwrap()).unwrap();
    let queries: Vec<_> = dashboard["panels"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap())
        .map(|target| target["expr"].as_str().unwrap().to_owned())
        .collect();
    assert!(queries.len() >= 5, "{queries:#?}");
    let alerts = ["alerts.yml", "alerts_test.yml"].map(|file| fs::read_to_string(folder.join(file)).unwrap());
    for text in queries.iter().chain(&alerts) {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let mut named = words.filter(|word| word.starts_with("leasehold_")).peekable();
        assert!(named.peek().is_some(), "{text}");
        for word in named {
            let of_histogram = ["_bucket", "_sum", "_count"].iter().any(|suffix| {
                word.strip_suffix(suffix).is_some_and(|name| BUCKETS.iter().any(|(known, _)| *known == name))
            });
            assert!(of_histogram || METRICS.iter().any(|(name, _)| *name == word), "{word}");
        }
    }
}
