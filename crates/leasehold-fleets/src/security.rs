//! Encrypted connections, and a user with the fewest rights.
//!
//! Invariant: the certificates live as long as the fleet that shows them.

use leasehold_proto::recipe::grants::{Names, Place, Primitive, rules, rules_of_confirmed};
use leasehold_testkit::certificates::Authority;
use leasehold_testkit::fleets::User;
use leasehold_testkit::servers::Encryption;

use crate::fault::Topology;
use crate::policy::{PREFIX, TAG};

/// The name of the workers' user. The nodes and the laboratory use the default user, who has all rights.
const USER: &str = "lab";
/// The login of the workers, as the address of one server has it.
pub(crate) const LOGIN: &str = "lab:lab";

/// The certificates of a fleet.
#[derive(Debug)]
pub(crate) struct Security {
    authority: Authority,
    encryption: Encryption,
}

impl Security {
    /// Issues the certificates of a fleet on the loopback interface.
    pub(crate) fn new() -> Self {
        let authority = Authority::new();
        let encryption = Encryption::new(&authority, &authority.node(&["127.0.0.1"]));
        Self { authority, encryption }
    }

    /// Returns the settings of the servers.
    pub(crate) const fn encryption(&self) -> &Encryption {
        &self.encryption
    }

    /// Returns the file of the authority that the workers trust.
    pub(crate) fn ca_file(&self) -> &str {
        self.authority.file()
    }
}

/// Returns a user with all rights, or with those alone that `leasehold acl` prints for the laboratory's locks.
pub(crate) fn user(topology: Topology, is_secured: bool) -> User {
    let mut user = User::unlimited(USER, USER);
    if is_secured {
        user.rules = least_rights(topology);
    }
    user
}

fn least_rights(topology: Topology) -> String {
    let (place, primitives) = match topology {
        Topology::Sentinel => (Place::BehindSentinels, &["lock", "fenced", "expirable"][..]),
        Topology::Cluster => (Place::Cluster, &["lock", "fenced", "expirable"][..]),
        Topology::Independent => (Place::Standalone, &["redlock"][..]),
        Topology::Single => (Place::Standalone, &["lock", "fenced", "expirable"][..]),
    };
    let prefixes = [PREFIX.to_owned(), format!("{{{TAG}}}{PREFIX}")];
    let names: Vec<Names> = prefixes.iter().filter_map(|prefix| Names::behind(prefix)).collect();
    let primitives: Vec<&Primitive> = primitives.iter().filter_map(|name| Primitive::named(name)).collect();
    let confirmed = rules_of_confirmed(topology.replicas() > 0, false);
    format!("{} {confirmed}", rules(place, &names, &primitives))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_a_secured_fleet_has_no_right_beyond_its_names() {
        let rules = user(Topology::Cluster, true).rules;
        assert!(rules.contains(" ~{lab}lab:*") && rules.contains(" +wait"), "{rules}");
        assert!(!rules.contains("~* ") && !rules.contains("+@all"), "{rules}");
    }
}
