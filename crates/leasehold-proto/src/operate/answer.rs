//! The answers of clients.
//!
//! Invariant: an answer has at most [`TEXT_MAX`] bytes. A reader leaves out a line that it cannot read, so an answer of a
//! later version is of use too.

use super::card::Card;
use super::line::{cleaned, fields};
use super::question::VERSION;
use crate::owner::ClientId;

/// The longest answer, in bytes, so that the answers of all clients stay small beside the data of their server.
pub const TEXT_MAX: usize = 64 << 10;
/// The longest name of a row, in bytes. A raw Redisson name may be longer, and is left out and counted.
const NAME_MAX: usize = 4096;
/// The bytes that a row leaves free for the last lines, which say how many rows were left out.
const RESERVED: usize = 128;

/// A hold of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "clients make rows")]
pub struct Held {
    /// The name on the server.
    pub name: String,
    /// The kind of the lock.
    pub kind: String,
    /// The wire owner.
    pub owner: String,
    /// The age of the hold in milliseconds.
    pub held_ms: u64,
    /// The milliseconds for which the client trusts the hold unless it renews, or `None` for a hold without an end.
    pub left_ms: Option<u64>,
    /// True if the client renews the hold.
    pub is_renewed: bool,
    /// The fencing token.
    pub token: Option<u64>,
    /// What the program says about the hold.
    pub note: String,
    /// The whole lease in milliseconds, or `None` for a hold without an end.
    pub lease_ms: Option<u64>,
}

/// The waiting acquires of a client for one name, or one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "clients make rows")]
pub struct Waiting {
    /// The name on the server.
    pub name: String,
    /// The kind of the lock.
    pub kind: String,
    /// The longest wait in milliseconds.
    pub waited_ms: u64,
    /// The number of acquires.
    pub tasks: u32,
}

/// The numbers of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "clients make totals")]
pub struct Totals {
    /// The holds.
    pub holds: u64,
    /// The waiting acquires.
    pub waits: u64,
    /// The age of the client in milliseconds.
    pub age_ms: u64,
}

/// What a client has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// The client.
    pub client: ClientId,
    /// The rest.
    pub body: Body,
}

/// An answer without its client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Body {
    /// True if the client does not understand the question.
    pub is_unknown: bool,
    /// The card.
    pub card: Option<Card>,
    /// The numbers.
    pub totals: Option<Totals>,
    /// The holds.
    pub held: Vec<Held>,
    /// The waits.
    pub waiting: Vec<Waiting>,
    /// The rows that do not fit into an answer.
    pub omitted: u32,
    /// The cursor of the next page, if there is one.
    pub next: Option<u64>,
}

/// An answer in the making.
#[derive(Debug)]
pub struct AnswerText {
    text: String,
    omitted: u32,
}

impl AnswerText {
    /// Begins the answer of a client.
    #[must_use]
    pub fn new(client: ClientId) -> Self {
        Self { text: format!("{VERSION}\t{client}"), omitted: 0 }
    }

    /// Says that the question is not understood.
    pub fn unknown(&mut self) {
        self.text.push_str("\nunknown");
    }

    /// Adds the card.
    pub fn card(&mut self, card: &Card) {
        self.text.push_str(&format!("\ncard\t{}", card.text()));
    }

    /// Adds the numbers.
    pub fn totals(&mut self, totals: Totals) {
        let Totals { holds, waits, age_ms } = totals;
        self.text.push_str(&format!("\ntotals\t{holds}\t{waits}\t{age_ms}"));
    }

    /// Adds a hold. Returns false if the answer is full, and the row belongs to the next one.
    #[must_use]
    pub fn held(&mut self, row: &Held) -> bool {
        let Held { name, kind, owner, held_ms, is_renewed, .. } = row;
        let (left, token, lease) = (or_dash(row.left_ms), or_dash(row.token), or_dash(row.lease_ms));
        let (renewed, note) = (u8::from(*is_renewed), cleaned(&row.note));
        self.row(
            name,
            &format!(
                "\nheld\t{name}\t{kind}\t{owner}\t{held_ms}\t{left}\t{renewed}\t{token}\t{note}\t{lease}"
            ),
        )
    }

    /// Adds a wait, as [`held`](Self::held) does.
    #[must_use]
    pub fn waiting(&mut self, row: &Waiting) -> bool {
        let Waiting { name, kind, waited_ms, tasks } = row;
        self.row(name, &format!("\nwaiting\t{name}\t{kind}\t{waited_ms}\t{tasks}"))
    }

    /// Adds a wait, or counts it as omitted if the answer is full.
    pub fn waiting_or_omitted(&mut self, row: &Waiting) {
        if !self.waiting(row) {
            self.omitted += 1;
        }
    }

    fn row(&mut self, name: &str, line: &str) -> bool {
        if name.len() > NAME_MAX {
            self.omitted += 1;
            return true;
        }
        let fits = self.text.len() + line.len() + RESERVED <= TEXT_MAX;
        if fits {
            self.text.push_str(line);
        }
        fits
    }

    /// Ends the answer, with the cursor of the next page if there is one.
    #[must_use]
    pub fn end(mut self, next: Option<u64>) -> String {
        if self.omitted > 0 {
            self.text.push_str(&format!("\nomitted\t{}", self.omitted));
        }
        if let Some(next) = next {
            self.text.push_str(&format!("\nnext\t{next}"));
        }
        self.text
    }
}

fn or_dash(number: Option<u64>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

impl Answer {
    /// Reads an answer. Returns `None` for a text that is none.
    #[must_use]
    pub fn read(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= TEXT_MAX)?;
        let mut lines = text.split('\n');
        let (version, client) = lines.next()?.split_once('\t')?;
        version.parse::<u32>().ok()?;
        let mut body = Body::default();
        for line in lines {
            // What this version does not know is left out.
            let _ = body.add(line);
        }
        Some(Self { client: client.parse().ok()?, body })
    }
}

impl Body {
    fn add(&mut self, line: &str) -> Option<()> {
        let (tag, rest) = line.split_once('\t').unwrap_or((line, ""));
        match tag {
            "unknown" => self.is_unknown = true,
            "card" => self.card = Some(Card::read(rest.as_bytes())?),
            "totals" => self.totals = Some(read_totals(&fields(rest)?)?),
            "held" => self.held.push(read_held(&fields(rest)?)?),
            "waiting" => self.waiting.push(read_waiting(&fields(rest)?)?),
            "omitted" => self.omitted = rest.parse().ok()?,
            "next" => self.next = Some(rest.parse().ok()?),
            _ => {}
        }
        Some(())
    }
}

fn read_totals(fields: &[&str]) -> Option<Totals> {
    let [holds, waits, age_ms, ..] = fields else { return None };
    Some(Totals { holds: holds.parse().ok()?, waits: waits.parse().ok()?, age_ms: age_ms.parse().ok()? })
}

fn read_held(fields: &[&str]) -> Option<Held> {
    let [name, kind, owner, held_ms, left, renewed, token, note, lease, ..] = fields else { return None };
    Some(Held {
        name: (*name).to_owned(),
        kind: (*kind).to_owned(),
        owner: (*owner).to_owned(),
        held_ms: held_ms.parse().ok()?,
        left_ms: read_or_dash(left)?,
        is_renewed: *renewed == "1",
        token: read_or_dash(token)?,
        note: cleaned(note),
        lease_ms: read_or_dash(lease)?,
    })
}

fn read_waiting(fields: &[&str]) -> Option<Waiting> {
    let [name, kind, waited_ms, tasks, ..] = fields else { return None };
    Some(Waiting {
        name: (*name).to_owned(),
        kind: (*kind).to_owned(),
        waited_ms: waited_ms.parse().ok()?,
        tasks: tasks.parse().ok()?,
    })
}

fn read_or_dash(text: &str) -> Option<Option<u64>> {
    if text == "-" { Some(None) } else { text.parse().ok().map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> ClientId {
        ClientId::from_random([7; 16])
    }

    fn held(name: &str) -> Held {
        Held {
            name: name.to_owned(),
            kind: "fenced lock".to_owned(),
            owner: format!("{}:1", client()),
            held_ms: 1500,
            left_ms: None,
            is_renewed: true,
            token: Some(9),
            note: "import of 2026-11-26".to_owned(),
            lease_ms: Some(30_000),
        }
    }

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let card = Card::new(client(), "orders", ("host", 1), ("orders", "leasehold 0.1.0"));
        let totals = Totals { holds: 70, waits: 8, age_ms: 12 };
        let waiting = Waiting { name: "b c".into(), kind: "lock".into(), waited_ms: 3, tasks: 2 };
        let mut text = AnswerText::new(client());
        text.card(&card);
        text.totals(totals);
        assert!(text.held(&held("a")) && text.waiting(&waiting));
        let answer = Answer::read(text.end(Some(44)).as_bytes()).unwrap();
        let body = Body {
            card: Some(card),
            totals: Some(totals),
            held: vec![held("a")],
            waiting: vec![waiting],
            next: Some(44),
            ..Body::default()
        };
        assert_eq!(answer, Answer { client: client(), body });
    }

    #[test]
    fn an_answer_has_its_bound_and_rows_that_never_fit_are_counted() {
        let mut text = AnswerText::new(client());
        assert!(text.held(&held(&"x".repeat(5000))));
        let mut rows = 0;
        while text.held(&held(&"x".repeat(512))) {
            rows += 1;
        }
        let text = text.end(Some(u64::MAX));
        assert!(text.len() <= TEXT_MAX && rows > 80, "{} bytes, {rows} rows", text.len());
        let body = Answer::read(text.as_bytes()).unwrap().body;
        assert_eq!((body.held.len(), body.omitted, body.next), (rows, 1, Some(u64::MAX)));
    }

    #[test]
    fn a_hostile_answer_is_refused_and_a_hostile_line_left_out() {
        for text in [&b""[..], b"1", b"1\tnobody", b"x\ty", b"\xff", "x".repeat(TEXT_MAX + 1).as_bytes()] {
            assert_eq!(Answer::read(text), None);
        }
        let good = AnswerText::new(client()).end(None);
        for line in [
            "held\ta",
            "held\t\u{1b}[2J\tlock\to\t1\t1\t1\t1\t",
            "waiting\ta\tlock\t-1\t1",
            "later\t1",
            "next\tx",
            "",
        ] {
            let answer = Answer::read(format!("{good}\n{line}").as_bytes()).unwrap();
            assert_eq!(answer.body, Body::default(), "{line}");
        }
    }
}
