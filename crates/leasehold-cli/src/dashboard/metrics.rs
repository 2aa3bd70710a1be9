//! The gauges of a fleet, in the text format of Prometheus.
//!
//! Invariant: a lock's name is never a label, because one series for each order would overload Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::fleet::object::Object;

/// The most groups of one kind. The rest is one group.
const GROUPS: usize = 20;

/// The name of a gauge, what it is, and its value.
type Gauge = (&'static str, &'static str, fn(&Sums) -> f64);

#[derive(Default)]
struct Sums {
    held: u64,
    waiting: u64,
    longest_hold: f64,
}

/// Returns the page of metrics.
pub(super) fn text(objects: impl Iterator<Item = Object>) -> String {
    let mut sums: BTreeMap<(&'static str, String), Sums> = BTreeMap::new();
    for object in objects {
        let kind = object.kind.name();
        let mut group = group(&object.name);
        let groups = sums.keys().filter(|(of, _)| *of == kind).count();
        if groups >= GROUPS && !sums.contains_key(&(kind, group.clone())) {
            "other".clone_into(&mut group);
        }
        let sum = sums.entry((kind, group)).or_default();
        sum.held += u64::from(!object.holders.is_empty());
        sum.waiting += object.waiting.most();
        let age = object.longest_hold_ms().unwrap_or(0) as f64 / 1000.0;
        sum.longest_hold = sum.longest_hold.max(age);
    }
    let mut text = String::new();
    let gauges: [Gauge; 3] = [
        ("leasehold_fleet_held", "Objects that are held.", |sums| sums.held as f64),
        ("leasehold_fleet_waiting", "Waiters, as far as they are known.", |sums| sums.waiting as f64),
        ("leasehold_fleet_longest_hold_seconds", "The age of the oldest hold.", |sums| sums.longest_hold),
    ];
    for (name, help, value) in gauges {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
        for ((kind, group), sum) in &sums {
            let group = group.replace('\\', r"\\").replace('"', r#"\""#);
            let _ = writeln!(text, "{name}{{kind=\"{kind}\",group=\"{group}\"}} {}", value(sum));
        }
    }
    text
}

/// Returns the group of a name, as the metrics of a client have it.
fn group(name: &str) -> String {
    leasehold::observe::group_of(name).into_owned()
}
