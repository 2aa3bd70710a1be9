//! The scripts of operators and of the clients that answer them.

use std::time::Duration;

use super::answer::Answer;
use super::card::{Card, Registered};
use super::described::DESCRIBE;
use super::question::{Question, RequestId};
use crate::call::Call;
use crate::name::{Channel, tagged};
use crate::outcome::Verb;
use crate::recipe::{NUMSUB, PUBLISH};
use crate::reply::Reply;
use crate::script::Script;

static REGISTER: Script = Script::new(Verb::Report, include_str!("../../scripts/operate/register.lua"));
static LEAVE: Script = Script::new(Verb::Report, include_str!("../../scripts/operate/leave.lua"));
static ANSWER: Script = Script::new(Verb::Report, include_str!("../../scripts/operate/answer.lua"));
static CARDS: Script = Script::new(Verb::Inspect, include_str!("../../scripts/operate/cards.lua"));
static ASK: Script = Script::new(Verb::Inspect, include_str!("../../scripts/operate/ask.lua"));
static COLLECT: Script = Script::new(Verb::Inspect, include_str!("../../scripts/operate/collect.lua"));

/// The scripts of a client that answers.
pub static SCRIPTS_OF_CLIENTS: [&Script; 3] = [&REGISTER, &LEAVE, &ANSWER];
/// The scripts of an operator who asks.
pub static SCRIPTS_OF_OPERATORS: [&Script; 4] = [&CARDS, &ASK, &COLLECT, &DESCRIBE];

/// The begin of the key of the cards and of the channel of questions.
pub const CLIENTS: &str = "leasehold_clients";
/// The begin of the key of the answers to a question.
pub const ANSWERS: &str = "leasehold_answer";
/// The most texts that wait for their asker, 16 MiB with the longest ones.
pub const ANSWERS_MAX: u32 = 256;
/// The time for which answers wait for their asker, who is gone if it has not fetched them by then.
const ANSWERS_LAST: Duration = Duration::from_secs(30);
/// The cards of a page, so that one call does not block the server for long.
pub const CARDS_PAGE: u32 = 256;

/// The clients that hear a question: those of one database with one key prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audience(Channel);

impl Audience {
    /// Creates the audience of a key prefix, in the database of this index.
    #[must_use]
    pub fn new(key_prefix: &str, database: u32) -> Self {
        let clients = format!("{CLIENTS}:{}", tagged(key_prefix));
        // A server has one channel of a name for all of its databases.
        Self(Channel::new(&if database == 0 { clients } else { format!("{clients}:{database}") }))
    }

    /// Returns the channel of the questions. The key of the cards has the same text, and so the same slot.
    #[must_use]
    pub const fn channel(&self) -> &Channel {
        &self.0
    }
}

/// Registers a client for a time. A repeated call begins the time anew.
#[must_use]
pub fn register(audience: &Audience, card: &Card, lasts: Duration) -> Call {
    let clients = audience.channel();
    Call::of(&REGISTER)
        .key("clients", clients)
        .arg("card", card.text())
        .arg("lasts_ms", millis(lasts))
        .arg("channel", clients)
}

/// Reads the reply of [`register`], which is false if the client may not listen.
#[must_use]
pub fn read_registered(reply: &Reply) -> Option<bool> {
    match reply {
        Reply::Int(done @ (0 | 1)) => Some(*done == 1),
        _ => None,
    }
}

/// Removes a client's card.
#[must_use]
pub fn leave(audience: &Audience, card: &Card) -> Call {
    Call::of(&LEAVE).key("clients", audience.channel()).arg("card", card.text())
}

/// Answers a question. The reply is 0 if too many answers wait for the asker.
#[must_use]
pub fn answer(request: RequestId, text: &str) -> Call {
    Call::of(&ANSWER)
        .key("answers", answers(request))
        .arg("text", text)
        .arg("lasts_ms", millis(ANSWERS_LAST))
        .arg("most", ANSWERS_MAX)
}

/// Reads a page of cards, from this place on.
#[must_use]
pub fn cards(audience: &Audience, from: u32) -> Call {
    Call::of(&CARDS).key("clients", audience.channel()).arg("from", from).arg("most", CARDS_PAGE)
}

/// A page of cards.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cards {
    /// The cards whose registration has not ended.
    pub registered: Vec<Registered>,
    /// True if another page may follow.
    pub has_more: bool,
}

/// Reads the reply of [`cards`]. A card that cannot be read is left out.
#[must_use]
pub fn read_cards(reply: &Reply) -> Option<Cards> {
    let Reply::Array(items) = reply else { return None };
    let [Reply::Int(now), cards @ ..] = items.as_slice() else { return None };
    let read = |pair: &[Reply]| match pair {
        [Reply::Text(card), Reply::Text(ends)] => {
            let ends = std::str::from_utf8(ends).ok()?.parse::<f64>().ok()?;
            let left = ends - *now as f64;
            // The part below a millisecond does not matter, and no registration is centuries long.
            (left > 0.0).then_some(Registered::new(Card::read(card)?, left as u64))
        }
        _ => None,
    };
    let has_more = cards.len() / 2 >= CARDS_PAGE as usize;
    Some(Cards { registered: cards.chunks_exact(2).filter_map(read).collect(), has_more })
}

/// Asks all clients of an audience.
#[must_use]
pub fn ask(audience: &Audience, request: RequestId, question: &Question) -> Call {
    let channel = audience.channel();
    let (begin, rest) = question.text(request);
    Call::of(&ASK)
        .key("clients", channel)
        .arg("begin", begin)
        .arg("rest", rest)
        .arg("numsub", NUMSUB)
        .arg("publish", PUBLISH)
        .arg("channel", channel)
}

/// How many clients were asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reached {
    /// The cards, which include those of clients that vanished.
    pub registered: u32,
    /// The clients that listen, or `None` if one server does not know all of them.
    pub listening: Option<u32>,
}

/// Reads the reply of [`ask`].
#[must_use]
pub fn read_asked(reply: &Reply) -> Option<Reached> {
    let Reply::Array(items) = reply else { return None };
    let [Reply::Int(registered), Reply::Int(listening)] = *items.as_slice() else { return None };
    let listening = if listening == -1 { None } else { Some(listening.try_into().ok()?) };
    Some(Reached { registered: registered.try_into().ok()?, listening })
}

/// Fetches answers to a question.
#[must_use]
pub fn collect(request: RequestId) -> Call {
    Call::of(&COLLECT).key("answers", answers(request)).arg("most", ANSWERS_MAX)
}

/// Reads the reply of [`collect`]. A text that is no answer is `None`.
#[must_use]
pub fn read_collected(reply: &Reply) -> Option<Vec<Option<Answer>>> {
    let Reply::Array(texts) = reply else { return None };
    let read = |text: &Reply| match text {
        Reply::Text(text) => Answer::read(text),
        _ => None,
    };
    Some(texts.iter().map(read).collect())
}

fn answers(request: RequestId) -> String {
    format!("{ANSWERS}:{request}")
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::ClientId;

    #[test]
    fn the_channel_has_the_braces_of_its_prefix_or_its_own() {
        for (prefix, database, text) in [
            ("", 0, "leasehold_clients:{}"),
            ("app:", 0, "leasehold_clients:{app:}"),
            ("app:", 3, "leasehold_clients:{app:}:3"),
            ("{app}:", 0, "leasehold_clients:{app}:"),
        ] {
            assert_eq!(Audience::new(prefix, database).channel().as_str(), text);
        }
    }

    #[test]
    fn a_page_has_the_cards_whose_registration_has_not_ended() {
        let client = |number| ClientId::from_random([number; 16]);
        let card = |number| Card::new(client(number), "n", ("h", 1), ("p", "l"));
        let text = |text: &str| Reply::Text(text.into());
        let reply = Reply::Array(vec![
            Reply::Int(1000),
            text(&card(1).text()),
            text("999"),
            text(&card(2).text()),
            text("1500"),
            text("no card"),
            text("1500"),
        ]);
        let cards = read_cards(&reply).unwrap();
        assert_eq!(cards.registered, [Registered::new(card(2), 500)]);
        assert!(!cards.has_more);
    }
}
