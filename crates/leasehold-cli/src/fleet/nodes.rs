//! Finds the masters of a fleet, and the slots of each.

use anyhow::{Error, anyhow};
use leasehold_proto::Name;
use leasehold_store::redis::wire::Answer;
use leasehold_store::redis::{ConnectOptions, Peer, query};
use leasehold_store::url::{Address, ServerUrl, Servers};

use crate::answers::{host_of, list, text};

/// A server that keeps locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Master {
    pub(super) address: Address,
    /// The first and the last slot of each range. Empty outside of a cluster.
    slots: Vec<(u16, u16)>,
}

impl Master {
    /// Returns true if the server has this name.
    pub(super) fn has(&self, name: &Name) -> bool {
        let slot = name.slot();
        self.slots.is_empty() || self.slots.iter().any(|(first, last)| (*first..=*last).contains(&slot))
    }
}

/// Finds the masters.
pub(super) async fn masters(url: &ServerUrl, options: &ConnectOptions) -> Result<Vec<Master>, Error> {
    let one = |address: &Address| vec![Master { address: address.clone(), slots: Vec::new() }];
    match url.servers() {
        Servers::One(address) => Ok(one(address)),
        Servers::Sentinel { sentinels, service, .. } => {
            let question: &[&str] = &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", service];
            let answers = first_answer(url, (Peer::Sentinel, sentinels), question, options).await?;
            let address = |(answer, sentinel): (Answer, Address)| match list(&answer) {
                [host, port] => {
                    let host = host_of(text(host), &sentinel)?;
                    Some(Address::Tcp { host, port: text(port)?.parse().ok()? })
                }
                _ => None,
            };
            let named = address(answers).map(|address| one(&address));
            named.ok_or_else(|| anyhow!("the sentinels know no master for the service {service:?}"))
        }
        Servers::Cluster { seeds } => {
            let (answer, seed) =
                first_answer(url, (Peer::Server, seeds), &["CLUSTER", "SLOTS"], options).await?;
            let masters = of_slots(&answer, &seed);
            match (masters.is_empty(), answer) {
                (false, _) => Ok(masters),
                (true, Answer::Error(refused)) => Err(anyhow!("the masters are unknown ({refused})")),
                _ => Err(anyhow!("the cluster has no slots")),
            }
        }
        _ => Err(anyhow!("this command does not support such servers")),
    }
}

/// Asks the servers one after another, and returns the first answer and who gave it.
async fn first_answer(
    url: &ServerUrl,
    (peer, addresses): (Peer, &[Address]),
    question: &[&str],
    options: &ConnectOptions,
) -> Result<(Answer, Address), Error> {
    let mut failure = anyhow!("the URL names no server");
    for address in addresses {
        match query(url, (peer, address), &[question], options).await {
            Ok(mut answers) => match answers.pop() {
                Some(Answer::Nil) | None => {}
                Some(answer) => return Ok((answer, address.clone())),
            },
            Err(error) => failure = Error::new(error).context(format!("{address} does not answer")),
        }
    }
    Err(failure)
}

/// Returns the masters of a map of slots, the first server of each range.
fn of_slots(answer: &Answer, seed: &Address) -> Vec<Master> {
    let mut masters: Vec<Master> = Vec::new();
    for range in list(answer) {
        let [Answer::Int(first), Answer::Int(last), master, ..] = list(range) else { continue };
        let [host, Answer::Int(port), ..] = list(master) else { continue };
        let port = u16::try_from(*port).ok().filter(|port| *port != 0);
        let Some((host, port)) = host_of(text(host), seed).zip(port) else { continue };
        let (Ok(first), Ok(last)) = (u16::try_from(*first), u16::try_from(*last)) else { continue };
        let address = Address::Tcp { host, port };
        match masters.iter_mut().find(|master| master.address == address) {
            Some(known) => known.slots.push((first, last)),
            None => masters.push(Master { address, slots: vec![(first, last)] }),
        }
    }
    masters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_has_its_master() {
        let node = |host: &str, port| Answer::List(vec![Answer::Text(host.to_owned()), Answer::Int(port)]);
        let range = |first, last, nodes: &[Answer]| {
            Answer::List([&[Answer::Int(first), Answer::Int(last)], nodes].concat())
        };
        let map = Answer::List(vec![
            range(0, 5000, &[node("", 7001), node("replica", 7004)]),
            range(5001, 16_000, &[node("other", 7002)]),
            range(16_001, 16_383, &[node("seed", 7001)]),
            range(1, 2, &[node("unannounced", 0)]),
        ]);
        let seed = Address::Tcp { host: "seed".to_owned(), port: 7003 };
        let masters = of_slots(&map, &seed);
        assert_eq!(masters.len(), 2, "{masters:?}");
        // Slot 12182, by CLUSTER KEYSLOT.
        let name = Name::new("foo").unwrap();
        assert_eq!(masters.iter().position(|master| master.has(&name)), Some(1));
    }
}
