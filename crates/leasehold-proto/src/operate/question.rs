//! The questions of operators.
//!
//! Invariant: a question of a later version still names its list of answers, so that a client can say that it does not
//! understand.

use std::fmt;
use std::str::FromStr;

/// The longest question, in bytes. A client ignores a longer one, so no publisher can make it read much.
const QUESTION_MAX: usize = 2048;
/// The most characters that say who asks for a hold.
const BY_MAX: usize = 200;
/// The version of questions and answers.
pub(super) const VERSION: &str = "1";

/// The number of one question, which nobody can guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(u128);

impl RequestId {
    /// Creates the number from these random bytes.
    #[must_use]
    pub const fn from_random(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    /// Returns a number that differs between questions, from which clients choose the time of their answer.
    #[must_use]
    pub const fn seed(self) -> u64 {
        (self.0 >> 64) as u64 ^ self.0 as u64
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for RequestId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let is_hex = text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        u128::from_str_radix(text, 16).ok().filter(|_| is_hex).map(Self).ok_or(())
    }
}

/// What an operator asks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Question {
    /// Who the client is, how much it holds and waits for, and the longest of both.
    Who,
    /// The holds behind this cursor, 0 for the first: of all names, or of one.
    Holds {
        /// The cursor.
        after: u64,
        /// The name.
        name: Option<String>,
    },
    /// The waiting acquires behind this cursor, 0 for the first: of all names, or of one.
    Waits {
        /// The cursor.
        after: u64,
        /// The name.
        name: Option<String>,
    },
    /// Please give this hold back. A client that has it answers with its row, and decides for itself.
    Ask {
        /// The name.
        name: String,
        /// The owner on the server.
        owner: String,
        /// Who asks.
        by: String,
    },
    /// A question of a later version.
    Unknown,
}

/// A question, as a client hears it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Asked {
    /// The number of the question.
    pub request: RequestId,
    /// The number of clients that are asked, 0 if it is unknown.
    pub answerers: u32,
    /// The question.
    pub question: Question,
}

impl Question {
    /// Returns the text in front of the number of clients, and the text behind it.
    pub(super) fn text(&self, request: RequestId) -> (String, String) {
        let rest = match self {
            Self::Who => " who".to_owned(),
            Self::Holds { after, name: None } => format!(" holds {after}"),
            Self::Holds { after, name: Some(name) } => format!(" holds {after} {name}"),
            Self::Waits { after, name: None } => format!(" waits {after}"),
            Self::Waits { after, name: Some(name) } => format!(" waits {after} {name}"),
            Self::Ask { name, owner, by } => {
                let by: String = by.chars().filter(|one| !one.is_control()).take(BY_MAX).collect();
                format!(" ask {owner}\t{name}\t{by}")
            }
            Self::Unknown => " unknown".to_owned(),
        };
        (format!("{VERSION} {request} "), rest)
    }
}

impl Asked {
    /// Reads a message on the channel of questions. Returns `None` for a message that is no question.
    #[must_use]
    pub fn read(message: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(message).ok().filter(|text| text.len() <= QUESTION_MAX)?;
        let mut words = text.splitn(4, ' ');
        let version: u32 = words.next()?.parse().ok()?;
        let request = words.next()?.parse().ok()?;
        let answerers = words.next()?.parse().ok()?;
        let rest = words.next().unwrap_or_default();
        let question = if version.to_string() == VERSION { read_question(rest) } else { None };
        Some(Self { request, answerers, question: question.unwrap_or(Question::Unknown) })
    }
}

fn read_question(text: &str) -> Option<Question> {
    if let Some(asked) = text.strip_prefix("ask ") {
        let mut parts = asked.splitn(3, '\t').map(str::to_owned);
        let (owner, name, by) = (parts.next()?, parts.next()?, parts.next()?);
        return Some(Question::Ask { name, owner, by });
    }
    let mut words = text.splitn(3, ' ');
    let verb = words.next()?;
    let after = words.next().map(str::parse);
    let name = words.next().map(str::to_owned);
    match (verb, after) {
        ("who", None) => Some(Question::Who),
        ("holds", Some(Ok(after))) => Some(Question::Holds { after, name }),
        ("waits", Some(Ok(after))) => Some(Question::Waits { after, name }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(question: &Question, answerers: u32) -> String {
        let (begin, rest) = question.text(RequestId(7));
        format!("{begin}{answerers}{rest}")
    }

    #[test]
    fn a_question_is_heard_as_it_was_asked() {
        let name = || Some("order: 42".to_owned());
        for question in [
            Question::Who,
            Question::Holds { after: 0, name: None },
            Question::Holds { after: u64::MAX, name: name() },
            Question::Waits { after: 9, name: None },
            Question::Waits { after: 9, name: name() },
            Question::Ask { name: "order: 42".into(), owner: "u:7".into(), by: "ann at the desk".into() },
        ] {
            let heard = Asked::read(sent(&question, 12).as_bytes()).unwrap();
            assert_eq!(heard, Asked { request: RequestId(7), answerers: 12, question });
        }
    }

    #[test]
    fn a_question_of_a_later_version_is_not_understood_and_has_its_list() {
        for rest in ["9 whoever", "9", "9 holds", "9 holds x", "9 who 1", "9 ask u:7", "9 ask u:7\tname"] {
            let heard = Asked::read(format!("1 {} {rest}", RequestId(7)).as_bytes()).unwrap();
            assert_eq!((heard.request, heard.question), (RequestId(7), Question::Unknown), "{rest}");
        }
        let later = sent(&Question::Who, 1).replacen('1', "2", 1);
        assert_eq!(Asked::read(later.as_bytes()).unwrap().question, Question::Unknown);
    }

    #[test]
    fn a_message_that_is_no_question_is_ignored() {
        let long = format!("{} {}", sent(&Question::Holds { after: 0, name: None }, 1), "x".repeat(4096));
        let messages = ["", "0", "hello", "1 zz 3 who", "1 +0000000000000000000000000000007 1 who", &long];
        for message in messages {
            assert_eq!(Asked::read(message.as_bytes()), None, "{message}");
        }
        assert_eq!(Asked::read(b"\xff\xfe"), None);
    }
}
