//! Asks the sentinels of a URL, and the further ones that they name.

use std::collections::BTreeSet;
use std::net::ToSocketAddrs;

use futures_util::future::join_all;
use leasehold_store::redis::Peer;
use leasehold_store::redis::wire::Answer;
use leasehold_store::url::Address;

use super::node::reach;
use super::{Target, fields};
use crate::answers::list;
use crate::doctor::facts::{Known, Link, SentinelFacts};

impl Target {
    /// Asks the sentinels of the URL, and then those that the URL does not name.
    pub(super) async fn ask_sentinels(&self, seeds: &[Address], service: &str) -> Vec<SentinelFacts> {
        let asked = seeds.iter().map(|seed| self.ask_sentinel(seed, service, true));
        let mut facts = join_all(asked).await;
        let further = further(seeds, &facts);
        let asked = further.iter().map(|address| self.ask_sentinel(address, service, false));
        facts.extend(join_all(asked).await);
        facts
    }

    fn link_to_sentinel(&self, address: &Address) -> Link {
        let is_encrypted = self.options.tls_to(&self.url, Peer::Sentinel).is_some();
        let has_password = self.options.logs_in(&self.url, Peer::Sentinel);
        Link { is_encrypted, has_password, reach: reach(address) }
    }

    async fn ask_sentinel(&self, sentinel: &Address, service: &str, is_of_url: bool) -> SentinelFacts {
        let questions: [&[&str]; 2] = [&["SENTINEL", "MASTER", service], &["SENTINEL", "SENTINELS", service]];
        let (node, link) = (sentinel.to_string(), self.link_to_sentinel(sentinel));
        match self.ask_peer((Peer::Sentinel, sentinel), &questions).await {
            Ok(answers) => {
                let mut answers = answers.into_iter().map(Known::of);
                let mut next = || answers.next().unwrap_or(Known::Missing);
                let master = Ok(next().and_then(|answer| fields(&answer)));
                let others = next().and_then(|answer| Some(addresses(&answer)));
                SentinelFacts { node, is_of_url, master, others, link }
            }
            Err(reason) => {
                SentinelFacts { node, is_of_url, master: Err(reason), others: Known::Missing, link }
            }
        }
    }
}

/// Returns the sentinels that others name and the URL does not. If as many sentinels of the URL answer as there are, the
/// names are further addresses of the same ones.
fn further(seeds: &[Address], facts: &[SentinelFacts]) -> BTreeSet<Address> {
    let answering = facts.iter().filter(|sentinel| sentinel.fields().is_some()).count() as u64;
    if SentinelFacts::total(facts).is_some_and(|total| answering >= total) {
        return BTreeSet::new();
    }
    let named = facts.iter().filter_map(|sentinel| sentinel.others.answered()).flatten();
    named.filter(|address| !seeds.iter().any(|seed| is_same(seed, address))).cloned().collect()
}

/// Returns true if a server of the URL has this address, by its name too.
fn is_same(seed: &Address, named: &Address) -> bool {
    let (Address::Tcp { host, port }, Address::Tcp { host: named_host, port: named_port }) = (seed, named)
    else {
        return seed == named;
    };
    let has_address = || {
        let mut addresses = (host.as_str(), *port).to_socket_addrs().into_iter().flatten();
        addresses.any(|address| address.ip().to_string() == *named_host)
    };
    port == named_port && (host == named_host || has_address())
}

/// Reads the answer to `SENTINEL SENTINELS`.
fn addresses(answer: &Answer) -> Vec<Address> {
    let address = |entry: &Answer| {
        let mut of = fields(entry)?;
        let (host, port) = (of.remove("ip")?, of.remove("port")?.parse().ok()?);
        (!host.is_empty() && port != 0).then_some(Address::Tcp { host, port })
    };
    list(answer).iter().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str, port: u16) -> Address {
        Address::Tcp { host: host.to_owned(), port }
    }

    fn knows(others: &[Address]) -> SentinelFacts {
        let master = [("num-other-sentinels".to_owned(), others.len().to_string())].into();
        SentinelFacts {
            node: "s:1".into(),
            is_of_url: true,
            master: Ok(Known::Answered(master)),
            others: Known::Answered(others.to_vec()),
            link: Link { is_encrypted: false, has_password: false, reach: reach(&at("127.0.0.1", 1)) },
        }
    }

    #[test]
    fn the_further_sentinels_are_those_that_no_part_of_the_url_names() {
        let others = [at("127.0.0.1", 2), at("10.0.0.3", 1)];
        assert_eq!(further(&[at("localhost", 1)], &[knows(&others)]), others.clone().into());
        assert_eq!(
            further(&[at("localhost", 1), at("localhost", 2)], &[knows(&others)]),
            [at("10.0.0.3", 1)].into()
        );
    }

    #[test]
    fn sentinels_under_other_addresses_than_the_announced_ones_are_not_further() {
        let seeds = [at("outside", 1), at("outside", 2)];
        let facts = [knows(&[at("10.0.0.2", 1)]), knows(&[at("10.0.0.1", 1)])];
        assert_eq!(further(&seeds, &facts), BTreeSet::new());
    }
}
