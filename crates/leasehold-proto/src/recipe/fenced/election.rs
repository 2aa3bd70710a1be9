//! Elections: what leaders, candidates and observers of a fenced lock tell each other (docs/protocol.md#26-elections).
//!
//! Invariant: nothing here grants a term except the transfer, which passes on the leader's own. A message is a hint, and
//! an announcement counts only beside the lock of its owner.

use std::time::Duration;

use super::token_key;
use crate::call::Call;
use crate::name::{Channel, Name};
use crate::outcome::Verb;
use crate::owner::WireOwner;
use crate::recipe::rules::PUBLISH;
use crate::reply::Reply;
use crate::script::Script;
use crate::text::Text;

static ANNOUNCE: Script = Script::new(Verb::Report, include_str!("../../../scripts/election/announce.lua"));
pub(crate) static SAY: Script = Script::new(Verb::Report, include_str!("../../../scripts/election/say.lua"));
pub(crate) static LEADER: Script =
    Script::new(Verb::Inspect, include_str!("../../../scripts/election/leader.lua"));
static TRANSFER: Script = Script::new(Verb::Adjust, include_str!("../../../scripts/election/transfer.lua"));

/// The scripts that only elections have.
pub static SCRIPTS: [&Script; 4] = [&ANNOUNCE, &SAY, &LEADER, &TRANSFER];

/// The prefix of the key of the announcement and of the channel of the observers.
pub(crate) const LEADER_KEY: &str = "leasehold_leader";
/// The longest name of a candidate, in bytes.
pub const CANDIDATE_MAX: usize = 255;
/// The longest text for observers, in bytes.
pub const INFO_MAX: usize = 512;
/// The time for which an announcement is kept. A leader repeats it each day, so an abandoned one does not stay for good.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// The lease of a transferred lock. The successor is waiting, so its attempt follows within a few trips. If it has died,
/// the election goes on after this time.
const TRANSFER_LEASE: Duration = Duration::from_secs(2);

/// What a leader says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "leaders make announcements")]
pub struct Announcement {
    /// The name of the candidate.
    pub candidate: String,
    /// A text for observers.
    pub info: String,
    /// The machine.
    pub host: String,
    /// The process.
    pub pid: u32,
}

/// The present leader.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The wire owner.
    pub owner: String,
    /// The rest of the lease, or `None` for a hold without an end.
    pub remaining: Option<Duration>,
    /// The fencing token of the name's last grant.
    pub term: Option<u64>,
    /// The announcement with the begin of the term in unix milliseconds, if it is the leader's own.
    pub announced: Option<(Announcement, u64)>,
}

/// A message on the channel of an election.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Message {
    /// A leader has resigned.
    Resigned,
    /// A leader has announced this term.
    Announced(u64),
    /// The lock belongs to these attempts now.
    PassedTo(WireOwner),
    /// The leader looks for this candidate, who answers with the same number.
    Seek {
        /// The number of the question.
        request: String,
        /// The candidate.
        candidate: String,
    },
    /// A waiting candidate, or a leader that was asked, answers.
    Here {
        /// The number of the question.
        request: String,
        /// The wire owner of its attempts.
        owner: WireOwner,
    },
    /// Somebody asks the leader of this term to end it, in favor of a candidate or of anybody. The leader answers with the
    /// same number.
    Ask {
        /// The number of the question.
        request: String,
        /// The term.
        term: u64,
        /// The candidate who should lead next.
        successor: Option<String>,
    },
}

impl Message {
    /// Returns the text of the message.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Resigned => "0".to_owned(),
            Self::Announced(term) => term.to_string(),
            Self::PassedTo(owner) => owner.to_string(),
            Self::Seek { request, candidate } => format!("seek {request} {candidate}"),
            Self::Here { request, owner } => format!("here {request} {owner}"),
            Self::Ask { request, term, successor: None } => format!("end {request} {term}"),
            Self::Ask { request, term, successor: Some(candidate) } => {
                format!("pass {request} {term} {candidate}")
            }
        }
    }

    /// Reads a message. A text of a later version is `None`.
    #[must_use]
    pub fn read(message: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(message).ok()?;
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let two = || rest.split_once(' ');
        Some(match word {
            "0" => Self::Resigned,
            "seek" => {
                let (request, candidate) = two()?;
                check_candidate(candidate)
                    .then(|| Self::Seek { request: request.to_owned(), candidate: candidate.to_owned() })?
            }
            "here" => {
                let (request, owner) = two()?;
                Self::Here { request: request.to_owned(), owner: owner.parse().ok()? }
            }
            "end" => {
                let (request, term) = two()?;
                Self::Ask { request: request.to_owned(), term: term.parse().ok()?, successor: None }
            }
            "pass" => {
                let (request, rest) = two()?;
                let (term, candidate) = rest.split_once(' ')?;
                let successor = check_candidate(candidate).then(|| candidate.to_owned());
                Self::Ask {
                    request: request.to_owned(),
                    term: term.parse().ok()?,
                    successor: Some(successor?),
                }
            }
            other => match other.parse() {
                Ok(term) => Self::Announced(term),
                Err(_) => Self::PassedTo(other.parse().ok()?),
            },
        })
    }
}

/// Returns true if a candidate may have this name: 1 to 255 bytes without control characters.
#[must_use]
pub fn check_candidate(candidate: &str) -> bool {
    !candidate.is_empty() && candidate.len() <= CANDIDATE_MAX && !candidate.contains(char::is_control)
}

/// Returns the channel of an election's observers. The key of the announcement has the same text, and so the same slot.
#[must_use]
pub fn channel(name: &Name) -> Channel {
    name.prefixed(LEADER_KEY)
}

fn key(name: &Name) -> impl Text {
    name.prefixed_text(LEADER_KEY)
}

/// Announces a leader.
#[must_use]
pub fn announce(name: &Name, owner: WireOwner, term: u64, announcement: &Announcement) -> Call {
    let Announcement { candidate, info, host, pid } = announcement;
    Call::of(&ANNOUNCE)
        .key("lock", name)
        .key("announcement", key(name))
        .arg("owner", owner)
        .arg("term", term)
        .arg("candidate", candidate.as_str())
        .arg("info", info.as_str())
        .arg("host", host.as_str())
        .arg("pid", *pid)
        .arg("kept_ms", millis(KEPT))
        .arg("publish", PUBLISH)
        .arg("channel", key(name))
}

/// Reads the reply of [`announce`]: true if the leader still holds the lock.
#[must_use]
pub fn read_announced(reply: &Reply) -> Option<bool> {
    match reply {
        Reply::Int(done @ (0 | 1)) => Some(*done == 1),
        _ => None,
    }
}

/// Says something to the candidates and observers.
#[must_use]
pub fn say(name: &Name, message: &Message) -> Call {
    Call::of(&SAY)
        .key("announcement", key(name))
        .arg("publish", PUBLISH)
        .arg("channel", key(name))
        .arg("message", message.text())
}

/// Passes the lock from the leader to the attempts of a successor.
#[must_use]
pub fn transfer(name: &Name, owner: WireOwner, successor: WireOwner) -> Call {
    Call::of(&TRANSFER)
        .key("lock", name)
        .key("token", token_key(name))
        .arg("owner", owner)
        .arg("successor", successor)
        .arg("lease_ms", millis(TRANSFER_LEASE))
        .arg("publish", PUBLISH)
        .arg("channel", key(name))
}

/// Reads the reply of [`transfer`]: the successor's token, or `None` inside if neither holds the lock.
#[must_use]
pub fn read_transferred(reply: &Reply) -> Option<Option<u64>> {
    match reply {
        Reply::Nil => Some(None),
        Reply::Text(token) => std::str::from_utf8(token).ok()?.parse().ok().map(Some),
        _ => None,
    }
}

/// Asks who leads.
#[must_use]
pub fn leader(name: &Name) -> Call {
    Call::of(&LEADER).key("lock", name).key("token", token_key(name)).key("announcement", key(name))
}

/// Reads the reply of [`leader`], with `None` inside if nobody leads.
#[must_use]
pub fn read_leader(reply: &Reply) -> Option<Option<Leader>> {
    let items = match reply {
        Reply::Nil => return Some(None),
        Reply::Array(items) => items.as_slice(),
        _ => return None,
    };
    let [Reply::Int(pttl), Reply::Text(owner), Reply::Text(token), Reply::Array(fields)] = items else {
        return None;
    };
    let remaining = match *pttl {
        -1 => None,
        left => Some(Duration::from_millis(left.try_into().ok()?)),
    };
    let owner = String::from_utf8_lossy(owner).into_owned();
    let term = std::str::from_utf8(token).ok().and_then(|token| token.parse().ok());
    let announced = read_announcement(fields, &owner);
    let term = announced.as_ref().map(|(_, _, term)| *term).or(term);
    Some(Some(Leader { owner, remaining, term, announced: announced.map(|(said, since, _)| (said, since)) }))
}

/// Reads an announcement, unless another leader has made it.
fn read_announcement(fields: &[Reply], owner: &str) -> Option<(Announcement, u64, u64)> {
    let find = |name: &str| {
        fields.chunks_exact(2).find_map(|pair| match pair {
            [Reply::Text(field), Reply::Text(value)] if field == name.as_bytes() => {
                Some(String::from_utf8_lossy(value).into_owned())
            }
            _ => None,
        })
    };
    (find("owner")? == owner).then_some(())?;
    let announcement = Announcement {
        candidate: find("candidate")?,
        info: find("info")?,
        host: find("host")?,
        pid: find("pid")?.parse().ok()?,
    };
    Some((announcement, find("since")?.parse().ok()?, find("term")?.parse().ok()?))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::ClientId;

    fn owner(number: u64) -> WireOwner {
        WireOwner::new(ClientId::from_random([7; 16]), number)
    }

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let request = owner(9).to_string();
        for message in [
            Message::Resigned,
            Message::Announced(1_795_000_000_000_000),
            Message::PassedTo(owner(3)),
            Message::Seek { request: request.clone(), candidate: "host b: 812".into() },
            Message::Here { request: request.clone(), owner: owner(4) },
            Message::Ask { request: request.clone(), term: 7, successor: None },
            Message::Ask { request, term: 7, successor: Some("b c".into()) },
        ] {
            assert_eq!(Message::read(message.text().as_bytes()), Some(message));
        }
        for text in [
            &b""[..],
            b"later 1",
            b"seek 1",
            b"seek 1 ",
            b"here 1 x",
            b"end",
            b"end 1 x",
            b"pass 7 ",
            b"pass 7 8 ",
            b"\xff",
        ] {
            assert_eq!(Message::read(text), None);
        }
    }

    #[test]
    fn an_announcement_of_another_owner_is_disbelieved() {
        let text = |text: &str| Reply::Text(text.into());
        let said = |by: &str| {
            let words = [
                "owner",
                by,
                "term",
                "7",
                "candidate",
                "a",
                "info",
                "i",
                "host",
                "h",
                "pid",
                "1",
                "since",
                "5",
            ];
            Reply::Array(words.map(text).into())
        };
        let read = |by: &str| {
            let reply = Reply::Array(vec![Reply::Int(900), text("me"), text("8"), said(by)]);
            read_leader(&reply).unwrap().unwrap()
        };
        let own = read("me");
        assert_eq!((own.announced.unwrap().0.candidate.as_str(), own.term), ("a", Some(7)));
        let stale = read("her");
        assert_eq!((stale.announced, stale.term), (None, Some(8)));
        assert_eq!(read_leader(&Reply::Nil), Some(None));
    }
}
