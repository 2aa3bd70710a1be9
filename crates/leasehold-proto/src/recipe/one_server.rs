//! The question which server runs a script, for stores that share a script among names.
//!
//! A script reaches one server. If the address is that of a proxy in front of several servers, the proxy chooses by the
//! first key, so the other names of a shared script would be locked on the wrong server.

use crate::call::Call;
use crate::outcome::Verb;
use crate::script::Script;

/// The number of keys whose servers are compared. Of two servers that share the names evenly, one has them all by a chance
/// of 1 in 2 billion.
const KEYS: usize = 32;

static RUN_ID: Script = Script::new(Verb::Connect, include_str!("../../scripts/check/run_id.lua"));

/// Creates a call that returns the run id of the server to which these keys lead, and nil from a server that has none.
#[must_use]
pub fn run_id<K: AsRef<str>>(keys: impl IntoIterator<Item = K>) -> Call {
    Call::with(&RUN_ID, keys, [""; 0])
}

/// Returns keys that begin like this one, so that its user may name them, and that lead to all servers behind an address.
/// They have no hash tag, which would lead all of them to one server.
#[must_use]
pub fn keys_like(key: &str) -> Vec<String> {
    // Without its first brace a name with a hash tag begins as the names do to which its user has the right.
    let begin = key.trim_start_matches('{').replace('{', "(").replace('}', ")");
    (0..KEYS).map(|number| format!("{begin}:leasehold:{number}")).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::name::slot;

    #[test]
    fn the_keys_lead_to_all_servers_whatever_shares_the_names() {
        for key in ["app:job", "{app}:job"] {
            let keys = keys_like(key);
            let slots: BTreeSet<u16> = keys.iter().map(|key| slot(key)).collect();
            assert_eq!(slots.len(), KEYS, "{key}");
            for servers in 2..=5 {
                let used: BTreeSet<u16> = slots.iter().map(|slot| slot % servers).collect();
                assert_eq!(used.len(), usize::from(servers), "{key}");
            }
        }
        for key in ["app:job", "{app:job}:1"] {
            assert!(keys_like(key).iter().all(|key| key.starts_with("app:job")), "the user has the right");
        }
    }
}
