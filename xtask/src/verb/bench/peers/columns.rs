//! The columns of the tables.

use super::workloads::{What, Workload};

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) figure: &'static str,
    pub(super) header: &'static str,
    decimals: usize,
    pub(super) more_is_better: bool,
}

impl Column {
    pub(super) fn format(&self, value: f64) -> String {
        format!("{value:.*}", self.decimals)
    }
}

const fn less(figure: &'static str, header: &'static str, decimals: usize) -> Column {
    Column { figure, header, decimals, more_is_better: false }
}

const fn more(figure: &'static str, header: &'static str, decimals: usize) -> Column {
    Column { figure, header, decimals, more_is_better: true }
}

const COMMANDS: Column = less("commands", "commands", 2);
const CLIENT_US: Column = less("client_us", "client CPU us", 1);
const SERVER_US: Column = less("server_us", "server CPU us", 1);
const CLIENT_PERCENT: Column = less("client_percent", "client CPU %", 2);
const SERVER_PERCENT: Column = less("server_percent", "server CPU %", 2);
const COMMANDS_S: Column = less("commands_s", "commands/s", 0);
const JAIN: Column = more("jain", "Jain", 2);
const LONGEST: Column = less("longest_ms", "longest wait ms", 1);

const PAIRS: &[Column] = &[
    more("rate", "pairs/s", 0),
    less("p50_us", "p50 us", 1),
    less("p99_us", "p99 us", 1),
    COMMANDS,
    CLIENT_US,
    SERVER_US,
];
const LONE: &[Column] = &[
    less("p50_us", "p50 us", 1),
    less("p99_us", "p99 us", 1),
    more("rate", "pairs/s", 0),
    COMMANDS,
    CLIENT_US,
    SERVER_US,
];
const HOT: &[Column] = &[more("rate", "grants/s", 0), JAIN, LONGEST, COMMANDS, CLIENT_US, SERVER_US];
const FLEET: &[Column] = &[
    more("rate", "grants/s", 0),
    JAIN,
    LONGEST,
    less("longest_share", "of the fair share", 1),
    COMMANDS,
    CLIENT_US,
    SERVER_US,
];
const HELD: &[Column] = &[
    CLIENT_PERCENT,
    SERVER_PERCENT,
    COMMANDS_S,
    less("memory_b", "bytes a lock", 0),
    less("lost", "lost", 0),
    more("least_remaining", "least remaining lease %", 0),
];
const IDLE: &[Column] = &[
    less("drain_ms", "all served in ms", 1),
    CLIENT_PERCENT,
    SERVER_PERCENT,
    COMMANDS_S,
    less("memory_b", "bytes a waiter", 0),
];
const HANDOVER: &[Column] = &[
    less("handover_p50_us", "median us", 1),
    less("handover_p99_us", "p99 us", 1),
    less("trips", "bare round trips", 1),
    more("hand_overs", "hand-overs", 0),
];

/// Returns the columns of a workload. The first decides who is better.
pub(super) fn columns(workload: &Workload) -> &'static [Column] {
    match workload.what {
        What::Pairs if workload.tasks == 1 => LONE,
        What::Pairs => PAIRS,
        What::Hot if workload.processes > 1 => FLEET,
        What::Hot => HOT,
        What::Held => HELD,
        What::Idle => IDLE,
        What::Handover => HANDOVER,
    }
}
