//! Checks for encryption and a password.

use leasehold_store::redis::Reach;

use crate::doctor::facts::{Facts, Link};
use crate::doctor::finding::{Check, Finding};

const TRANSPORT: Check = Check {
    name: "transport",
    why: "anyone who learns the password, or reaches an open server, can delete and take every lock",
    assumption: Some("A4"),
};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    vec![of(facts.link)]
}

/// Judges the way to a server or to a sentinel.
pub(super) fn of(Link { is_encrypted, has_password, reach }: Link) -> Finding {
    let tls = "set tls-port on the server, and use a URL with rediss://";
    let login = "give the locks a user with a password: `leasehold acl`";
    match (is_encrypted, has_password, reach) {
        (true, true, _) => TRANSPORT.pass("encrypted, with a password"),
        (true, false, _) => TRANSPORT.warn("encrypted, and without a password", login),
        (false, true, Reach::Public) => {
            TRANSPORT.warn("the password travels in plain text outside of a private network", tls)
        }
        (false, false, Reach::Public) => {
            TRANSPORT.warn("neither encryption nor a password outside of a private network", tls)
        }
        (false, true, Reach::Private) => TRANSPORT.pass("plain text in a private network, with a password"),
        (false, false, Reach::Private) => {
            TRANSPORT.warn("no password, open to the whole private network", login)
        }
        (false, _, Reach::Loopback) => TRANSPORT.pass("plain text on the same machine"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::healthy;
    use super::*;
    use crate::doctor::finding::Verdict;

    #[test]
    fn a_password_in_plain_text_on_a_public_network_warns() {
        for (is_encrypted, has_password, reach, expected) in [
            (false, true, Reach::Public, Verdict::Warn),
            (false, false, Reach::Public, Verdict::Warn),
            (true, true, Reach::Public, Verdict::Pass),
            (true, false, Reach::Public, Verdict::Warn),
            (false, true, Reach::Private, Verdict::Pass),
            (false, false, Reach::Private, Verdict::Warn),
            (false, false, Reach::Loopback, Verdict::Pass),
        ] {
            let link = Link { is_encrypted, has_password, reach };
            assert_eq!(check(&Facts { link, ..healthy() })[0].verdict, expected, "{link:?}");
        }
    }
}
