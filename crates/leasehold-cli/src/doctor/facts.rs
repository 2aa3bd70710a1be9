//! What servers report about themselves, as plain values for the checks.

use std::collections::BTreeMap;

use leasehold_store::redis::Reach;
use leasehold_store::redis::wire::Answer;
use leasehold_store::url::Address;

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Known<T> {
    Answered(T),
    /// The user lacks the right.
    Denied,
    /// The server does not know the command or the setting, or failed.
    Missing,
}

impl<T> Known<T> {
    pub(crate) const fn answered(&self) -> Option<&T> {
        match self {
            Self::Answered(value) => Some(value),
            Self::Denied | Self::Missing => None,
        }
    }

    pub(crate) fn and_then<U>(self, read: impl FnOnce(T) -> Option<U>) -> Known<U> {
        match self {
            Self::Answered(value) => read(value).map_or(Known::Missing, Known::Answered),
            Self::Denied => Known::Denied,
            Self::Missing => Known::Missing,
        }
    }

    /// Returns both answers, or the reason why one of them is missing. A lack of rights comes first.
    pub(crate) fn zip<U>(self, other: Known<U>) -> Known<(T, U)> {
        match (self, other) {
            (Self::Answered(one), Known::Answered(other)) => Known::Answered((one, other)),
            (Self::Denied, _) | (_, Known::Denied) => Known::Denied,
            _ => Known::Missing,
        }
    }

    /// Returns the reason why the answer to this question is not known.
    pub(crate) fn gap(&self, question: &str) -> String {
        match self {
            Self::Denied => format!("the user may not run {question}"),
            _ => format!("the server does not answer {question}"),
        }
    }
}

impl Known<Answer> {
    /// Sorts an answer by what the server says of the command.
    pub(crate) fn of(answer: Answer) -> Self {
        match answer {
            Answer::Error(text) if text.starts_with("NOPERM") => Self::Denied,
            Answer::Error(_) | Answer::Nil => Self::Missing,
            answer => Self::Answered(answer),
        }
    }
}

/// Named texts: a section of INFO, or the fields of a map.
pub(crate) type Fields = BTreeMap<String, String>;

/// The place of a server among the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    Standalone,
    Sentinel,
    Cluster,
}

/// The role of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Master,
    Replica,
}

/// The connection to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) is_encrypted: bool,
    pub(crate) has_password: bool,
    pub(crate) reach: Reach,
}

/// The difference between the clock of a server and the clock of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    /// Positive if the server is ahead.
    pub(crate) ahead_ms: i64,
    /// The largest error of the measurement.
    pub(crate) error_ms: i64,
}

/// The times of one script, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Percentiles {
    pub(crate) p50_us: u128,
    pub(crate) p99_us: u128,
    pub(crate) max_us: u128,
}

/// The times of an acquire and a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Latency {
    pub(crate) acquire: Percentiles,
    pub(crate) release: Percentiles,
    pub(crate) rounds: usize,
}

/// The rights that a user lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    pub(crate) user: String,
    /// Rules in the notation of `ACL SETUSER`.
    pub(crate) missing: Vec<String>,
    /// Those among them without which locks work as they should.
    pub(crate) optional: Vec<String>,
}

/// The server's native commands for plain locks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Native {
    pub(crate) user: String,
    /// Those that the user may run.
    pub(crate) allowed: Vec<&'static str>,
    pub(crate) denied: Vec<&'static str>,
}

/// The servers behind an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    One,
    /// The address refuses scripts with names of several slots.
    Slots,
    Several,
    /// The reason why it is not known.
    Unknown(String),
}

/// The facts of one server that keeps locks, or of a replica of one.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) node: String,
    pub(crate) topology: Topology,
    pub(crate) role: Role,
    pub(crate) link: Link,
    pub(crate) info: Known<Fields>,
    /// The answers to `CONFIG GET`, by the name of the setting.
    pub(crate) settings: BTreeMap<&'static str, Known<String>>,
    /// The silence after which the other servers replace this one. `None` for a single server.
    pub(crate) replaced_after_ms: Option<Known<u64>>,
    /// The answer to `CLUSTER INFO` of a node of a cluster.
    pub(crate) cluster: Option<Known<Fields>>,
    pub(crate) clock: Known<Clock>,
    /// The result of a script on a scratch name. `None` on a replica.
    pub(crate) script: Option<Result<(), String>>,
    /// The servers behind the address. `None` on a replica, and on a node of a cluster, which says itself what it serves.
    pub(crate) behind: Option<Behind>,
    pub(crate) rights: Known<Rights>,
    /// The native commands, or `None` if no primitive has any, or the server does not say.
    pub(crate) native: Option<Native>,
    /// The rights of the operator, and the line of `ACL SETUSER` that gives them. `None` if none is named.
    pub(crate) operator: Option<(Known<Rights>, String)>,
    /// The line of `ACL SETUSER` for the examined user.
    pub(crate) acl_line: String,
    /// The times of the scripts, or the reason why there are none. `None` on a replica.
    pub(crate) latency: Option<Result<Latency, String>>,
}

impl Facts {
    /// Returns a setting by `CONFIG GET`.
    pub(crate) fn setting(&self, name: &'static str) -> Known<String> {
        self.settings.get(name).cloned().unwrap_or(Known::Missing)
    }

    /// Returns a setting by `CONFIG GET`, or the field of INFO that has the same value.
    pub(crate) fn setting_or_info(&self, name: &'static str, field: &str) -> Known<String> {
        match (self.setting(name), self.field(field)) {
            (Known::Answered(value), _) | (_, Known::Answered(value)) => Known::Answered(value),
            (Known::Denied, _) | (_, Known::Denied) => Known::Denied,
            _ => Known::Missing,
        }
    }

    /// Returns a setting that is a number.
    pub(crate) fn number(&self, name: &'static str) -> Known<u64> {
        self.setting(name).and_then(|value| value.parse().ok())
    }

    /// Returns a field of INFO.
    pub(crate) fn field(&self, name: &str) -> Known<String> {
        self.info.clone().and_then(|mut info| info.remove(name))
    }

    /// Returns a field of INFO that is a number.
    pub(crate) fn field_number(&self, name: &str) -> Known<u64> {
        self.field(name).and_then(|value| value.parse().ok())
    }
}

/// The facts of one sentinel.
#[derive(Clone, Debug)]
pub(crate) struct SentinelFacts {
    pub(crate) node: String,
    /// False if only other sentinels name it.
    pub(crate) is_of_url: bool,
    /// The answer to `SENTINEL MASTER`, or the reason why there is none.
    pub(crate) master: Result<Known<Fields>, String>,
    /// The other sentinels, by `SENTINEL SENTINELS`.
    pub(crate) others: Known<Vec<Address>>,
    pub(crate) link: Link,
}

impl SentinelFacts {
    /// Returns the fields of the master, if the sentinel has answered with them.
    pub(crate) fn fields(&self) -> Option<&Fields> {
        self.master.as_ref().ok()?.answered()
    }

    /// Returns the address of the master.
    pub(crate) fn master_address(&self) -> Option<(String, u16)> {
        let fields = self.fields()?;
        Some((fields.get("ip")?.clone(), fields.get("port")?.parse().ok()?))
    }

    /// Returns the number of sentinels, according to the one that knows most of them.
    pub(crate) fn total(sentinels: &[Self]) -> Option<u64> {
        let others = sentinels.iter().filter_map(|sentinel| sentinel.number("num-other-sentinels"));
        others.max().map(|others| others + 1)
    }

    /// Returns a field of the master that is a number.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.fields()?.get(name)?.parse().ok()
    }
}

/// The facts of all servers of one URL.
#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    /// The URL without its passwords.
    pub(crate) url: String,
    pub(crate) sentinels: Vec<SentinelFacts>,
    pub(crate) nodes: Vec<Facts>,
    /// The servers that did not answer, and the reasons.
    pub(crate) unreachable: Vec<(String, String)>,
    /// True if the servers of a cluster could not be listed.
    pub(crate) is_map_unknown: bool,
}
