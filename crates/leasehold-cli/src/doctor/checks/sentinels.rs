//! Checks the sentinels: their number, their quorum, whether they agree on the master, and which of them the URL lacks.

use std::collections::BTreeSet;

use super::transport;
use crate::doctor::facts::{Fleet, SentinelFacts};
use crate::doctor::finding::{Check, Finding};

const QUORUM: Check = Check {
    name: "sentinel-quorum",
    why: "no failover happens without the quorum and a majority of the sentinels, so a dead master stays dead",
    assumption: Some("A6"),
};
const AGREEMENT: Check = Check {
    name: "sentinel-agreement",
    why: "sentinels that name different masters send clients to different servers, and both grant the same locks",
    assumption: Some("A6"),
};
const ANSWERS: Check =
    Check { name: "sentinel", why: "clients ask the sentinels for the master", assumption: None };
const IN_URL: Check = Check {
    name: "sentinel-url",
    why: "a starting client knows only the sentinels of its URL, and finds no master while all of them are down",
    assumption: None,
};

pub(super) fn check(fleet: &Fleet) -> Vec<Finding> {
    if fleet.sentinels.is_empty() {
        return Vec::new();
    }
    let mut findings: Vec<_> = fleet.sentinels.iter().map(answers).collect();
    let answering = fleet.sentinels.iter().filter(|sentinel| sentinel.master.is_ok());
    findings.extend(answering.map(|sentinel| transport::of(sentinel.link).on(&sentinel.node)));
    findings.push(quorum(fleet).on(&fleet.url));
    findings.push(agreement(fleet).on(&fleet.url));
    findings.push(in_url(fleet).on(&fleet.url));
    findings
}

fn answers(sentinel: &SentinelFacts) -> Finding {
    let run = "SENTINEL MASTER, and the rights of the sentinels' user (`leasehold acl --sentinel`)";
    let finding = match &sentinel.master {
        Err(reason) if !sentinel.is_of_url => {
            ANSWERS.warn(reason.clone(), "start the sentinel, or SENTINEL RESET on the others if it is gone")
        }
        Err(reason) => ANSWERS.fail(reason.clone(), "start the sentinel, or correct the URL"),
        Ok(known) => match (known.answered(), sentinel.master_address()) {
            (Some(fields), Some((host, port))) => {
                let flags = fields.get("flags").map_or("", String::as_str);
                let found = format!("the master is {host}:{port} ({flags})");
                if flags.contains("down") {
                    ANSWERS.fail(found, "SENTINEL FAILOVER, or start the master")
                } else {
                    ANSWERS.pass(found)
                }
            }
            _ => ANSWERS.fail(known.gap("SENTINEL MASTER of this service"), run),
        },
    };
    finding.on(&sentinel.node)
}

fn quorum(fleet: &Fleet) -> Finding {
    let quorum = fleet.sentinels.iter().filter_map(|sentinel| sentinel.number("quorum")).max();
    let (Some(quorum), Some(total)) = (quorum, SentinelFacts::total(&fleet.sentinels)) else {
        return QUORUM.unknown("no sentinel answers SENTINEL MASTER", "SENTINEL CKQUORUM");
    };
    let found = format!("{total} sentinels, quorum {quorum}");
    let majority = total / 2 + 1;
    let answered = fleet.sentinels.iter().filter(|sentinel| sentinel.fields().is_some()).count();
    let silent = (fleet.sentinels.len() - answered) as u64;
    if quorum > total || total.saturating_sub(silent) < quorum.max(majority) {
        return QUORUM.fail(
            format!("{found}, {silent} do not answer"),
            "start the sentinels that are down, or SENTINEL SET the quorum",
        );
    }
    match total {
        3.. => QUORUM.pass(found),
        _ => QUORUM.warn(
            format!("{found}; without any one of them no failover happens"),
            "run at least three sentinels on separate hosts",
        ),
    }
}

fn agreement(fleet: &Fleet) -> Finding {
    let named: BTreeSet<_> = fleet.sentinels.iter().filter_map(SentinelFacts::master_address).collect();
    let names: Vec<_> = named.iter().map(|(host, port)| format!("{host}:{port}")).collect();
    match names.as_slice() {
        [] => AGREEMENT.unknown("no sentinel names a master", "SENTINEL MASTER"),
        [master] => AGREEMENT.pass(format!("all name {master}")),
        _ => AGREEMENT
            .fail(format!("they name {}", names.join(" and ")), "SENTINEL RESET on the outdated ones"),
    }
}

fn in_url(fleet: &Fleet) -> Finding {
    let is_listed = |sentinel: &SentinelFacts| sentinel.others.answered().is_some();
    if !fleet.sentinels.iter().any(is_listed) {
        return IN_URL.unknown("no sentinel names the others", "SENTINEL SENTINELS");
    }
    let further = fleet.sentinels.iter().filter(|sentinel| !sentinel.is_of_url);
    let further: Vec<_> = further.map(|sentinel| sentinel.node.as_str()).collect();
    match further.as_slice() {
        [] => IN_URL.pass("the URL names all sentinels"),
        _ => IN_URL.warn(
            format!("the URL does not name {}", further.join(" and ")),
            "add them to the URL of the clients",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{fields, verdict};
    use leasehold_store::redis::Reach;

    use super::*;
    use crate::doctor::facts::{Known, Link};
    use crate::doctor::finding::Verdict;

    const LINK: Link = Link { is_encrypted: false, has_password: true, reach: Reach::Private };

    fn sentinel(port: &str, quorum: &str, others: &str) -> SentinelFacts {
        let of = [("ip", "10.0.0.1"), ("port", port), ("quorum", quorum), ("num-other-sentinels", others)];
        let master = Ok(Known::Answered(fields(&of)));
        SentinelFacts {
            node: "s:1".into(),
            is_of_url: true,
            master,
            others: Known::Answered(Vec::new()),
            link: LINK,
        }
    }

    fn of(sentinels: Vec<SentinelFacts>) -> Vec<Finding> {
        let (nodes, unreachable) = (Vec::new(), Vec::new());
        check(&Fleet { url: String::new(), sentinels, nodes, unreachable, is_map_unknown: false })
    }

    fn silent() -> SentinelFacts {
        let master = Err("refused".into());
        SentinelFacts { node: "s:2".into(), is_of_url: true, master, others: Known::Missing, link: LINK }
    }

    #[test]
    fn the_quorum_must_be_reachable() {
        let good = || sentinel("1", "2", "2");
        let of = |sentinels| verdict(&of(sentinels), "sentinel-quorum");
        assert_eq!(of(vec![good(), good(), silent()]), Verdict::Pass);
        assert_eq!(of(vec![good(), silent(), silent()]), Verdict::Fail);
        assert_eq!(of(vec![sentinel("1", "4", "2")]), Verdict::Fail);
        assert_eq!(of(vec![sentinel("1", "1", "1")]), Verdict::Warn);
        assert_eq!(of(vec![silent()]), Verdict::Unknown);
    }

    #[test]
    fn sentinels_must_name_one_master() {
        let of = |sentinels| verdict(&of(sentinels), "sentinel-agreement");
        assert_eq!(of(vec![sentinel("1", "2", "2"), sentinel("1", "2", "2")]), Verdict::Pass);
        assert_eq!(of(vec![sentinel("1", "2", "2"), sentinel("2", "2", "2")]), Verdict::Fail);
    }

    #[test]
    fn a_sentinel_that_the_url_does_not_name_is_a_warning() {
        let named = || sentinel("1", "2", "2");
        let further = |sentinel| SentinelFacts { is_of_url: false, ..sentinel };
        assert_eq!(verdict(&of(vec![named()]), "sentinel-url"), Verdict::Pass);
        assert_eq!(verdict(&of(vec![named(), further(named())]), "sentinel-url"), Verdict::Warn);
        assert_eq!(verdict(&of(vec![silent()]), "sentinel-url"), Verdict::Unknown);
        assert_eq!(verdict(&of(vec![further(silent())]), "sentinel"), Verdict::Warn);
    }

    #[test]
    fn a_sentinel_that_refuses_the_question_fails() {
        let denied = SentinelFacts { master: Ok(Known::Denied), ..silent() };
        assert_eq!(verdict(&of(vec![denied]), "sentinel"), Verdict::Fail);
    }

    #[test]
    fn a_password_in_plain_text_on_a_public_network_warns() {
        let at = |reach| SentinelFacts { link: Link { reach, ..LINK }, ..sentinel("1", "2", "2") };
        let far = of(vec![at(Reach::Private), at(Reach::Public)]);
        let told: Vec<_> = far.iter().filter(|finding| finding.check == "transport").collect();
        assert_eq!(
            told.iter().map(|finding| finding.verdict).collect::<Vec<_>>(),
            [Verdict::Pass, Verdict::Warn]
        );
    }
}
