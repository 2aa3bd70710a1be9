//! Secrets: passwords, and URLs that may have a password.
//!
//! Invariant: no `Display`, and a `Debug` that shows nothing. A caller needs an explicit call to read the text.

use std::fmt;

use serde::Deserialize;

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(super) struct Secret(String);

/// The text that replaces a secret.
pub(super) const MASK: &str = "***";

impl Secret {
    pub(super) const fn new(text: String) -> Self {
        Self(text)
    }

    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

/// Returns a URL with its password masked. In doubt it masks more. The result reads back as a URL.
pub(super) fn masked_url(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
    let mut shown = format!("{scheme}://");
    match rest.rsplit_once('@') {
        Some((login, place)) => {
            let user = login.split_once(':').map(|(user, _)| user).unwrap_or_default();
            shown += &format!("{user}:{MASK}@{place}");
        }
        None => shown += rest,
    }
    for (number, pair) in query.into_iter().flat_map(|query| query.split('&')).enumerate() {
        shown.push(if number == 0 { '?' } else { '&' });
        match pair.split_once('=') {
            Some((key @ ("db" | "user"), value)) => shown += &format!("{key}={value}"),
            Some((key, _)) => shown += &format!("{key}={MASK}"),
            None => shown += MASK,
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_urls_are_masked_and_what_is_shown_is_a_url() {
        for (url, shown) in [
            ("redis://h", "redis://h"),
            ("redis://app:hunter2@h:1/2", "redis://app:***@h:1/2"),
            ("redis://:p:q@r@h", "redis://:***@h"),
            ("redis://hunter2@h", "redis://:***@h"),
            ("unix:///s?db=1&user=app&pass=hunter2", "unix:///s?db=1&user=app&pass=***"),
            ("redis+sentinel://u:hunter2@a,b/m?x=hunter2&y", "redis+sentinel://u:***@a,b/m?x=***&***"),
        ] {
            assert_eq!(masked_url(url), shown);
        }
        assert_eq!(format!("{:?}", Secret::new("hunter2".into())), "***");
    }
}
