//! The smallest rights that a server's user needs, per primitive and topology.
//!
//! Invariant: the commands of a primitive are those that its scripts declare, so a script that calls a new command
//! changes the rights.
//!
//! # How it works
//! Each primitive names its scripts, and the forms of its keys and channels. The header of a script says which commands
//! it calls. What a client itself sends depends on the topology alone.

use std::collections::BTreeSet;
use std::fmt;

use super::held_as::adopt;
use super::{
    election, expirable, fair, fence, fenced, latch, multi, plain, read, redlock, reentrant, semaphore,
    sides, spin, upgrade, write,
};
use crate::operate;
use crate::outcome::Verb;
use crate::script::Script;

/// The commands of every connection. AUTH and HELLO are always allowed.
const CONNECTION: [&str; 3] = ["ping", "eval", "evalsha"];
/// The commands with which a client listens outside of a cluster.
const LISTENING: [&str; 2] = ["subscribe", "unsubscribe"];
/// The commands with which a client listens in a cluster with sharded channels.
const SHARDED_LISTENING: [&str; 2] = ["ssubscribe", "sunsubscribe"];
/// The commands with which a client finds its way in a cluster.
const CLUSTER: [&str; 3] = ["asking", "cluster|info", "cluster|shards"];
/// The command with which a client asks an address that is not a cluster's whether one server is behind it. Without the
/// right, calls on different names share no command, and a lock of several names with one hash tag is refused.
const ONE_SERVER: [&str; 1] = ["info"];
/// The command with which a client asks a server that a sentinel named for its role.
const BEHIND_SENTINELS: [&str; 1] = ["role"];
/// The rights on the sentinels themselves.
const ON_SENTINELS: &str =
    "resetchannels -@all +ping +subscribe +unsubscribe +sentinel|master +sentinel|sentinels &+switch-master";

/// The command with which a client names its connections.
const NAMING: [&str; 1] = ["client|setname"];

/// The commands with which a client over RESP3 asks a server to tell of the change of another library's key. Without the
/// rights its waiters only poll.
const TRACKING: [&str; 2] = ["client|caching", "client|tracking"];

/// The server that a user is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A single server.
    Standalone,
    /// A master or a replica behind sentinels.
    BehindSentinels,
    /// A node of a cluster with sharded channels, which Redis has from version 7.
    Cluster,
}

/// The form of a key or a channel of one name.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// The name itself.
    Name,
    /// The name with braces, and something behind it.
    NameFirst,
    /// A prefix, the name with braces, and something behind it.
    Behind(&'static str),
    /// A prefix, and the name with braces.
    Helper(&'static str),
    /// A prefix, and something that has no name in it.
    AnyBehind(&'static str),
    /// The channel of a latch, which has a second pair of braces.
    LatchChannel,
}

/// A primitive, and what it needs of a server.
pub struct Primitive {
    /// The name of the primitive in lists of primitives.
    pub name: &'static str,
    scripts: fn() -> Vec<&'static Script>,
    keys: &'static [Form],
    channels: &'static [Form],
}

/// The verbs of a hold that is a field of the lock's hash, apart from its acquire.
const HELD: [Verb; 4] = [Verb::Renew, Verb::Release, Verb::ForceRelease, Verb::Inspect];

/// All primitives.
pub static PRIMITIVES: [Primitive; 12] = [
    Primitive {
        name: "lock",
        scripts: || [&reentrant::SCRIPTS[..], &[&adopt::ADOPT]].concat(),
        keys: &[Form::Name],
        channels: &[Form::Helper(reentrant::CHANNEL)],
    },
    Primitive {
        name: "fair",
        scripts: || {
            [&fair::SCRIPTS[..], &[&adopt::ADOPT], &reentrant_scripts(&[Verb::Renew, Verb::Inspect])].concat()
        },
        keys: &[
            Form::Name,
            Form::Helper("redisson_lock_queue"),
            Form::Helper("redisson_lock_timeout"),
            Form::Helper("leasehold_lock_seen"),
        ],
        channels: &[Form::Behind(reentrant::CHANNEL)],
    },
    Primitive {
        name: "fenced",
        scripts: || fenced_scripts().collect(),
        keys: &[Form::Name, Form::Helper("redisson_lock_token"), Form::Helper("leasehold_fence")],
        channels: &[Form::Helper(reentrant::CHANNEL)],
    },
    Primitive {
        name: "election",
        scripts: || fenced_scripts().chain(election::SCRIPTS).collect(),
        keys: &[
            Form::Name,
            Form::Helper("redisson_lock_token"),
            Form::Helper("leasehold_fence"),
            Form::Helper(election::LEADER_KEY),
        ],
        channels: &[Form::Helper(reentrant::CHANNEL), Form::Helper(election::LEADER_KEY)],
    },
    Primitive {
        name: "spin",
        scripts: || {
            let shared = reentrant_scripts(&[Verb::Acquire, Verb::Renew, Verb::Inspect]);
            [&spin::SCRIPTS[..], &[&adopt::ADOPT], &shared].concat()
        },
        keys: &[Form::Name],
        channels: &[],
    },
    Primitive {
        name: "rw",
        scripts: || {
            let own = [&read::SCRIPTS[..], &write::SCRIPTS, &sides::SCRIPTS, &upgrade::SCRIPTS].concat();
            [own, reentrant_scripts(&[Verb::Renew]), vec![&reentrant::HOLDERS]].concat()
        },
        keys: &[
            Form::Name,
            Form::NameFirst,
            Form::Helper("leasehold_rw_writer"),
            Form::Helper("leasehold_rw_upgrade"),
        ],
        channels: &[Form::Helper(sides::CHANNEL)],
    },
    Primitive {
        name: "multi",
        scripts: || [&multi::SCRIPTS[..], &reentrant::SCRIPTS].concat(),
        keys: &[Form::Name],
        channels: &[Form::Helper(reentrant::CHANNEL)],
    },
    Primitive {
        name: "redlock",
        scripts: || [&redlock::SCRIPTS[..], &reentrant_scripts(&HELD)].concat(),
        keys: &[Form::Name],
        channels: &[Form::Helper(reentrant::CHANNEL)],
    },
    Primitive {
        name: "plain",
        // `SET`, the native command of an acquire, is among those of the scripts.
        scripts: || [&plain::SCRIPTS[..], &plain::VARIANTS, &plain::MULTI_SCRIPTS].concat(),
        keys: &[Form::Name],
        channels: &[Form::Helper(plain::CHANNEL)],
    },
    Primitive {
        name: "semaphore",
        scripts: || semaphore::SCRIPTS.to_vec(),
        keys: &[
            Form::Name,
            Form::NameFirst,
            Form::Behind("leasehold_permit"),
            Form::Behind("leasehold_op"),
            Form::Helper("leasehold_sc_queue"),
            Form::Helper("leasehold_sc_seen"),
        ],
        channels: &[Form::Helper(semaphore::CHANNEL)],
    },
    Primitive {
        name: "expirable",
        scripts: || expirable::SCRIPTS.to_vec(),
        keys: &[Form::Name, Form::NameFirst, Form::Behind("leasehold_op")],
        channels: &[Form::Helper(semaphore::CHANNEL)],
    },
    Primitive {
        name: "latch",
        scripts: || latch::SCRIPTS.to_vec(),
        keys: &[Form::Name, Form::Helper(latch::NOTE), Form::Behind("leasehold_op")],
        channels: &[Form::LatchChannel],
    },
];

/// What a client needs to answer the questions of operators. Without these rights its locks work, and operators do not see
/// it.
static VISIBLE: Primitive = Primitive {
    name: "visible",
    scripts: || operate::SCRIPTS_OF_CLIENTS.to_vec(),
    keys: &[Form::Behind(operate::CLIENTS), Form::AnyBehind(operate::ANSWERS)],
    channels: &[Form::Behind(operate::CLIENTS)],
};

/// What an operator needs to see all objects, and to ask the clients.
static OPERATOR: Primitive = Primitive {
    name: "operator",
    scripts: || {
        operate::SCRIPTS_OF_OPERATORS.into_iter().chain([&election::LEADER, &election::SAY]).collect()
    },
    keys: &[
        Form::Name,
        Form::NameFirst,
        Form::Helper("redisson_lock_queue"),
        Form::Helper("redisson_lock_timeout"),
        Form::Helper("redisson_lock_token"),
        Form::Helper("leasehold_lock_seen"),
        Form::Helper("leasehold_rw_writer"),
        Form::Helper("leasehold_rw_upgrade"),
        Form::Helper("leasehold_sc_queue"),
        Form::Helper("leasehold_sc_seen"),
        Form::Helper(latch::NOTE),
        Form::Helper(election::LEADER_KEY),
        Form::Behind(operate::CLIENTS),
        Form::AnyBehind(operate::ANSWERS),
    ],
    channels: &[Form::Behind(operate::CLIENTS), Form::Helper(election::LEADER_KEY)],
};

/// What an operator needs to release holds, besides [`OPERATOR`].
static RELEASES: Primitive = Primitive {
    name: "release",
    scripts: || {
        let all = PRIMITIVES.iter().flat_map(|primitive| (primitive.scripts)());
        all.filter(|script| script.verb == Verb::Release).chain(operate::SCRIPTS_OF_REPAIRS).collect()
    },
    keys: &[Form::Behind("leasehold_permit")],
    channels: &[
        Form::Behind(reentrant::CHANNEL),
        Form::Helper(reentrant::CHANNEL),
        Form::Helper(sides::CHANNEL),
        Form::Helper(semaphore::CHANNEL),
        Form::Helper(plain::CHANNEL),
    ],
};

/// The commands of an operator outside of scripts: the scan of keys, and the names of channels.
const LOOKING: [&str; 4] = ["dbsize", "hrandfield", "pubsub|channels", "scan"];
/// The further commands of an operator in a cluster.
const LOOKING_IN_CLUSTER: [&str; 2] = ["cluster|slots", "pubsub|shardchannels"];
/// The right of an operator on the sentinels.
const OPERATOR_ON_SENTINELS: &str = "+sentinel|get-master-addr-by-name";

fn fenced_scripts() -> impl Iterator<Item = &'static Script> {
    let own = fenced::SCRIPTS.into_iter().chain(fence::SCRIPTS).chain([&adopt::ADOPT_FENCED]);
    own.chain(reentrant_scripts(&HELD))
}

fn reentrant_scripts(verbs: &[Verb]) -> Vec<&'static Script> {
    reentrant::SCRIPTS.into_iter().filter(|script| verbs.contains(&script.verb)).collect()
}

impl Primitive {
    /// Returns the primitive of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PRIMITIVES.iter().find(|primitive| primitive.name == name)
    }
}

impl fmt::Debug for Primitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Primitive").field(&self.name).finish()
    }
}

/// The names behind one prefix, as patterns of keys and channels.
#[derive(Clone, Debug)]
pub struct Names {
    /// The prefix, with its wildcard characters escaped.
    prefix: String,
}

impl Names {
    /// Returns all names.
    #[must_use]
    pub const fn all() -> Self {
        Self { prefix: String::new() }
    }

    /// Returns the names that begin with a prefix, all of which have no braces of their own. Returns `None` for a prefix
    /// with a space or a control character, which no rule of a user can have.
    #[must_use]
    pub fn behind(prefix: &str) -> Option<Self> {
        if prefix.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
            return None;
        }
        let mut escaped = String::new();
        for letter in prefix.chars() {
            if matches!(letter, '*' | '?' | '[' | ']' | '\\') {
                escaped.push('\\');
            }
            escaped.push(letter);
        }
        Some(Self { prefix: escaped })
    }

    /// Returns the pattern of a key or a channel. A prefix with a hash tag replaces the braces around the name.
    fn pattern(&self, form: Form) -> String {
        let prefix = &self.prefix;
        let (open, close) = if prefix.contains('{') { ("", "") } else { ("{", "}") };
        match form {
            Form::Name => format!("{prefix}*"),
            Form::NameFirst => format!("{open}{prefix}*"),
            Form::Behind(helper) => format!("{helper}:{open}{prefix}*"),
            Form::Helper(helper) => format!("{helper}:{open}{prefix}*{close}"),
            Form::AnyBehind(helper) => format!("{helper}:*"),
            Form::LatchChannel => format!("redisson_countdownlatch__channel__{{{prefix}*}}"),
        }
    }
}

/// Returns the rules of ACL SETUSER for a user of some primitives, in place of all other rules of commands, keys and
/// channels.
///
/// ```
/// use leasehold_proto::recipe::grants::{Names, Place, Primitive, rules};
///
/// let (names, spin) = (Names::behind("app:").unwrap(), Primitive::named("spin").unwrap());
/// let rules = rules(Place::Standalone, &[names], &[spin]);
/// assert!(rules.starts_with("resetkeys resetchannels -@all +client|setname +del +eval +evalsha "), "{rules}");
/// assert!(rules.contains(" ~app:* "), "{rules}");
/// ```
#[must_use]
pub fn rules(place: Place, names: &[Names], primitives: &[&Primitive]) -> String {
    let primitives: Vec<_> = primitives.iter().copied().chain([&VISIBLE]).collect();
    rules_of(place, names, &primitives, &[])
}

/// Returns the part of [`rules`] without which a promise of a lock does not hold. The other part is for operators, who see
/// the clients by it.
#[must_use]
pub fn rules_of_locks(place: Place, names: &[Names], primitives: &[&Primitive]) -> String {
    rules_of(place, names, primitives, &[])
}

/// Returns the rules for an operator, who sees all objects, and who may release holds too.
///
/// The user has no other command that writes than `LPOP`, which fetches the answers of clients, and what wakes or asks
/// clients, unless it may release.
#[must_use]
pub fn rules_of_operator(place: Place, names: &[Names], may_release: bool) -> String {
    let primitives: &[&Primitive] = if may_release { &[&OPERATOR, &RELEASES] } else { &[&OPERATOR] };
    let looking: &[&str] = if place == Place::Cluster { &LOOKING_IN_CLUSTER } else { &[] };
    rules_of(place, names, primitives, &[&LOOKING[..], looking].concat())
}

fn rules_of(place: Place, names: &[Names], primitives: &[&Primitive], further: &[&'static str]) -> String {
    let mut commands: BTreeSet<&str> = [&CONNECTION[..], &NAMING, further].concat().into_iter().collect();
    match place {
        Place::Standalone => commands.extend(ONE_SERVER),
        Place::BehindSentinels => commands.extend([ONE_SERVER, BEHIND_SENTINELS].concat()),
        Place::Cluster => commands.extend(CLUSTER),
    }
    let is_sharded = place == Place::Cluster;
    commands.extend(if is_sharded { SHARDED_LISTENING } else { LISTENING });
    for script in primitives.iter().flat_map(|primitive| (primitive.scripts)()) {
        commands.extend(script.is_tracked().then_some(TRACKING).into_iter().flatten());
        // A script publishes by one of two commands, which its caller chooses.
        commands.extend(script.header().calls.iter().map(|call| match *call {
            "publish|spublish" if is_sharded => "spublish",
            "publish|spublish" => "publish",
            // The right is optional. Without it a hold that passes on inside its client ends after its first bound.
            "pubsub" if is_sharded => "pubsub|shardnumsub",
            "pubsub" => "pubsub|numsub",
            other => other,
        }));
    }
    let patterns = |sign: char, forms: fn(&Primitive) -> &'static [Form]| {
        let forms = primitives.iter().flat_map(|primitive| forms(primitive));
        let patterns = forms.flat_map(|form| names.iter().map(|names| names.pattern(*form)));
        let patterns: BTreeSet<_> = patterns.collect();
        // A server refuses a pattern beside the one for everything.
        let patterns = if patterns.contains("*") { BTreeSet::from(["*".to_owned()]) } else { patterns };
        patterns.into_iter().map(move |pattern| format!(" {sign}{pattern}"))
    };
    let keys = patterns('~', |primitive| primitive.keys);
    let channels = patterns('&', |primitive| primitive.channels);
    let commands = commands.into_iter().map(|command| format!(" +{command}"));
    let all: String = commands.chain(keys).chain(channels).collect();
    format!("resetkeys resetchannels -@all{all}")
}

/// Returns what a client needs besides [`rules`] when replicas confirm its calls, and when disks do (`fsync`).
#[must_use]
pub const fn rules_of_confirmed(by_replicas: bool, by_disks: bool) -> &'static str {
    match (by_replicas, by_disks) {
        (true, true) => "+info +waitaof",
        (true, false) => "+info +wait",
        (false, true) => "+waitaof",
        (false, false) => "",
    }
}

/// The commands that release a plain lock without a script, on servers that have them: Valkey 9.0 `DELIFEQ`, Redis 8.4 and
/// Valkey 9.2 `DELEX`. `ACL SETUSER` refuses a line with a command that its server does not know, so [`rules`] have neither.
/// A client that lacks the right falls back to its script, once per connection.
pub const NATIVE: [&str; 2] = ["delifeq", "delex"];

/// Returns true if the clients of these primitives use [`NATIVE`] commands.
#[must_use]
pub fn has_native(primitives: &[&Primitive]) -> bool {
    let scripts = primitives.iter().flat_map(|primitive| (primitive.scripts)());
    scripts.into_iter().any(|script| script.native().is_some())
}

/// Returns the rules of ACL SETUSER for a user of the sentinels.
#[must_use]
pub fn rules_on_sentinels() -> &'static str {
    ON_SENTINELS
}

/// Returns the rules of ACL SETUSER for an operator on the sentinels.
#[must_use]
pub fn rules_of_operator_on_sentinels() -> String {
    format!("{ON_SENTINELS} {OPERATOR_ON_SENTINELS}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::{Command, Word};

    #[test]
    fn every_script_belongs_to_a_primitive() {
        let owned: BTreeSet<_> =
            PRIMITIVES.iter().flat_map(|primitive| (primitive.scripts)()).map(Script::source).collect();
        assert!(super::super::scripts().all(|script| owned.contains(script.source())));
    }

    #[test]
    fn an_operator_changes_no_lock_unless_it_may_release() {
        let commands = |may_release| {
            let rules = rules_of_operator(Place::Standalone, &[Names::all()], may_release);
            rules
                .split(' ')
                .filter_map(|rule| rule.strip_prefix('+'))
                .map(str::to_owned)
                .collect::<BTreeSet<_>>()
        };
        let (seeing, releasing) = (commands(false), commands(true));
        for writing in ["hdel", "hset", "del", "set", "pexpire", "incrby", "zrem", "lrem"] {
            assert!(!seeing.contains(writing) && releasing.contains(writing), "{writing}");
        }
        assert!(seeing.contains("lpop") && seeing.contains("hscan") && seeing.is_subset(&releasing));
    }

    #[test]
    fn a_prefix_with_a_hash_tag_has_no_more_braces() {
        let names = Names::behind("{app}:").unwrap();
        assert_eq!(names.pattern(Form::Helper("redisson_sc")), "redisson_sc:{app}:*");
        assert_eq!(names.pattern(Form::NameFirst), "{app}:*");
    }

    #[test]
    fn wildcards_of_a_prefix_are_escaped_and_spaces_refused() {
        assert_eq!(Names::behind("a*[b]?\\").unwrap().pattern(Form::Name), r"a\*\[b\]\?\\*");
        assert!(Names::behind("a b").is_none());
    }

    #[test]
    fn native_commands_are_in_the_rules_or_are_those_that_some_servers_lack() {
        let rules = rules(Place::Standalone, &[Names::all()], &[Primitive::named("plain").unwrap()]);
        let mut lacking = BTreeSet::new();
        let scripts = PRIMITIVES.iter().flat_map(|primitive| (primitive.scripts)());
        for native in scripts.filter_map(Script::native) {
            for Command { words, .. } in native.0 {
                let Word::Text(name) = words[0] else { panic!("{words:?} begins with no command") };
                let name = name.to_ascii_lowercase();
                if !rules.split(' ').any(|rule| rule.strip_prefix('+') == Some(&name)) {
                    lacking.insert(name);
                }
            }
        }
        assert_eq!(lacking, NATIVE.map(str::to_owned).into());
        assert!(TRACKING.iter().all(|command| rules.contains(&format!(" +{command} "))), "{rules}");
        let has_native = |name| has_native(&[Primitive::named(name).unwrap()]);
        assert!(has_native("plain") && !has_native("lock"));
    }

    #[test]
    fn primitives_have_their_own_names() {
        let names: BTreeSet<_> = PRIMITIVES.iter().map(|primitive| primitive.name).collect();
        assert_eq!(names.len(), PRIMITIVES.len());
    }
}
