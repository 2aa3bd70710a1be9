//! Finds the names that somebody waits for, by the channels that waiters listen to. This also finds Redisson's waiters.

use futures_util::future::join_all;
use leasehold_proto::operate::{Kind, is_owner};
use leasehold_store::redis::wire::Answer;
use leasehold_store::redis::{Peer, query};

use super::rows::Rows;
use super::servers::Servers;
use crate::answers::{list, text};

/// The beginnings of all channels.
const ALL: [&str; 2] = ["redisson_*", "leasehold_plain:*"];
/// The beginnings of the channels of names, and the kinds that listen there.
const PREFIXES: [(&str, Kind); 4] = [
    ("redisson_lock__channel:", Kind::Lock),
    ("redisson_rwlock:", Kind::ReadWrite),
    ("redisson_sc:", Kind::Semaphore),
    ("leasehold_plain:", Kind::Plain),
];
/// The beginning of the channel of a latch, which always has a pair of braces.
const LATCH: &str = "redisson_countdownlatch__channel__";

impl Servers {
    /// Adds the names that somebody waits for. A server lists the channels of all its databases.
    /// A server that does not tell leaves the number unknown.
    pub(super) async fn add_awaited(&self, rows: &mut Rows) {
        let is_cluster = self.is_cluster();
        let [plain, sharded] =
            ["CHANNELS", "SHARDCHANNELS"].map(|kind| ALL.map(|pattern| ["PUBSUB", kind, pattern]));
        let keyspace: &[&str] = &["INFO", "keyspace"];
        let mut questions: Vec<&[&str]> = plain.iter().map(<[&str; 3]>::as_slice).collect();
        match is_cluster {
            true => questions.extend(sharded.iter().map(<[&str; 3]>::as_slice)),
            false => questions.push(keyspace),
        }
        let database = self.url.database();
        rows.is_shared = database > 0;
        let masters = self.masters();
        let asked = masters
            .iter()
            .map(|master| query(&self.url, (Peer::Server, &master.address), &questions, &self.options));
        let (mut count, mut is_known) = (0, true);
        for answers in join_all(asked).await {
            let answers = answers.unwrap_or_else(|_| {
                self.doubt_masters();
                Vec::new()
            });
            // A user without the right learns nothing about other databases.
            rows.is_shared |=
                !is_cluster && answers.last().and_then(text).is_some_and(|info| has_others(&info));
            // A user of a cluster needs the right to one of both, because clients use either.
            is_known &= answers.iter().any(|answer| matches!(answer, Answer::List(_)));
            for channel in answers.iter().flat_map(list).filter_map(text) {
                let Some((key, kind)) = named(&channel) else { continue };
                if key.starts_with(&self.prefix) {
                    rows.row(key).show(kind);
                    count += 1;
                }
            }
        }
        rows.channels = is_known.then_some(count);
    }
}

/// Returns true if a database besides the first has keys.
fn has_others(info: &str) -> bool {
    info.lines().any(|line| line.starts_with("db") && !line.starts_with("db0:"))
}

/// Returns the key and the kind of a channel.
fn named(channel: &str) -> Option<(&str, Kind)> {
    if let Some(name) = channel.strip_prefix(LATCH) {
        return Some((name.strip_prefix('{')?.strip_suffix('}')?, Kind::Latch));
    }
    let (rest, kind) =
        PREFIXES.iter().find_map(|(prefix, kind)| Some((channel.strip_prefix(prefix)?, *kind)))?;
    // A waiter of a fair lock has a channel of its own, which ends with its owner.
    let owner = rest.rmatch_indices(':').nth(1).map(|(at, _)| (&rest[..at], &rest[at + 1..]));
    let (name, kind) = match owner {
        Some((name, owner)) if kind == Kind::Lock && is_owner(owner) => (name, Kind::Fair),
        _ => (rest, kind),
    };
    let braced = name.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
    Some((braced.filter(|name| !name.contains(['{', '}'])).unwrap_or(name), kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_names_its_key_and_its_kind() {
        let owner = "7f2a9c1e-0000-4000-8000-000000000001:57";
        for (channel, expected) in [
            ("redisson_lock__channel:{order:42}", Some(("order:42", Kind::Lock))),
            ("redisson_lock__channel:{app}:x", Some(("{app}:x", Kind::Lock))),
            (&format!("redisson_lock__channel:{{a:b}}:{owner}"), Some(("a:b", Kind::Fair))),
            (&format!("redisson_lock__channel:{{app}}:x:{owner}"), Some(("{app}:x", Kind::Fair))),
            ("redisson_rwlock:{doc}", Some(("doc", Kind::ReadWrite))),
            ("redisson_sc:{seats}", Some(("seats", Kind::Semaphore))),
            ("leasehold_plain:{job}", Some(("job", Kind::Plain))),
            ("leasehold_plain:{app}:job", Some(("{app}:job", Kind::Plain))),
            ("redisson_countdownlatch__channel__{gate}", Some(("gate", Kind::Latch))),
            ("redisson_countdownlatch__channel__{{a}b}", Some(("{a}b", Kind::Latch))),
            ("redisson_map_cache:{x}", None),
        ] {
            assert_eq!(named(channel), expected, "{channel}");
        }
    }
}
