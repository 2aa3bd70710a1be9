//! What operators and clients say to each other: cards, questions and answers (docs/protocol.md#24-operators).
//!
//! Invariant: nothing here holds, renews or frees a lock. A text of another program is bounded and checked before it is
//! read, and a reader ignores what it does not know.
//!
//! # How it works
//! Each client that wants to be seen keeps its [`Card`] in one sorted set of its key prefix, and listens on one channel.
//! An operator publishes a [`Question`] there, with the key of a list. Each client pushes its [`Answer`] to that list, from
//! which the operator fetches it. A list takes a burst of answers that would overrun the output buffer of a subscriber.

mod answer;
mod calls;
mod card;
mod described;
mod kind;
mod line;
mod question;
mod release;

pub use answer::{Answer, AnswerText, Body, Held, TEXT_MAX, Totals, Waiting};
pub use calls::{
    ANSWERS, ANSWERS_MAX, Audience, CARDS_PAGE, CLIENTS, Cards, Reached, SCRIPTS_OF_CLIENTS,
    SCRIPTS_OF_OPERATORS, answer, ask, cards, collect, leave, read_asked, read_cards, read_collected,
    read_registered, register,
};
pub use card::{Card, CardError, Registered, check_labels};
pub use described::{
    Content, DESCRIBE, Described, Hold, Listeners, Mode, PARTS_MAX, Permits, Queue, Queued, describe,
    is_owner, read_described,
};
pub use kind::Kind;
pub use question::{Asked, Question, RequestId};
pub use release::{Release, SCRIPTS_OF_REPAIRS, expire, expire_value, read_expired};

use crate::script::Script;

/// Returns all scripts of operators and of the clients that answer them.
pub fn scripts() -> impl Iterator<Item = &'static Script> {
    SCRIPTS_OF_CLIENTS.into_iter().chain(SCRIPTS_OF_OPERATORS).chain(SCRIPTS_OF_REPAIRS)
}
