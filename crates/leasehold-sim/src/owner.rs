//! The wire owner of a hold, as the server sees it.
//!
//! Invariant: the shortened form tells the owners of one history apart.

use std::sync::Arc;

/// A wire owner as the server sees it.
pub(crate) type Wire = Arc<str>;

/// Returns the last letters of a wire owner, enough to tell it from the others of a history.
pub(crate) fn short(wire: &str) -> String {
    if wire.len() == 32 && !wire.contains(':') {
        return format!("{}:{}", &wire[..4], &wire[29..]);
    }
    let (client, number) = wire.rsplit_once(':').unwrap_or(("", wire));
    let client: String = client.chars().take(4).collect();
    format!("{client}:{number}")
}
