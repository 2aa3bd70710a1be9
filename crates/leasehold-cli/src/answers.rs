//! Reads the answers of servers as lists and texts, for the verbs that ask servers directly.

use leasehold_store::redis::wire::Answer;
use leasehold_store::url::Address;

/// Returns a text, or a number as text.
pub(crate) fn text(answer: &Answer) -> Option<String> {
    match answer {
        Answer::Text(text) => Some(text.clone()),
        Answer::Int(number) => Some(number.to_string()),
        _ => None,
    }
}

pub(crate) fn list(answer: &Answer) -> &[Answer] {
    match answer {
        Answer::List(items) => items,
        _ => &[],
    }
}

/// Returns the first host that a server announces, or the host of the server that was asked.
pub(crate) fn host_of(announced: impl IntoIterator<Item = String>, seed: &Address) -> Option<String> {
    let known = announced.into_iter().find(|host| !host.is_empty() && *host != "?");
    known.or_else(|| match seed {
        Address::Tcp { host, .. } => Some(host.clone()),
        Address::Unix { .. } => None,
    })
}
