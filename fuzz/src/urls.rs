//! URLs: any text is judged without a panic, and no password comes out again.
//!
//! Invariant: the password that is looked for is put there by the target, where a password stands.
//! Called by: the target `urls`.

use arbitrary::{Arbitrary, Unstructured};
use leasehold_store::redis::{ServerUrl, UrlError};

/// A password that no other part has by chance.
const CANARY: &str = "qXz7hunter2";

/// The parts of a URL, each any text at all.
#[derive(Debug)]
struct Parts {
    scheme: String,
    user: String,
    before: String,
    after: String,
    host: String,
    tail: String,
    is_socket: bool,
}

/// Reads bytes as a URL, and as the parts of a URL with a password.
pub fn urls(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        judge(text);
    }
    if let Ok(parts) = Parts::take(&mut Unstructured::new(data)) {
        let text = parts.text();
        let said = judge(&text);
        assert!(!said.contains(CANARY), "the password of {text:?} is told: {said}");
    }
}

/// Everything that the library says of a URL.
fn judge(text: &str) -> String {
    match ServerUrl::parse(text) {
        Ok(url) => {
            let shown = url.to_string();
            let again = ServerUrl::parse(&shown);
            assert_eq!(
                again.as_ref().map(ToString::to_string),
                Ok(shown.clone()),
                "{text:?} is shown wrongly"
            );
            assert!(!shown.contains(char::is_control), "{text:?} is shown with control characters");
            format!("{shown} {url:?}")
        }
        Err(error) => {
            let said = format!("{error} {error:?}");
            if let UrlError::UnknownScheme { scheme, .. } = &error {
                assert!(text.to_ascii_lowercase().starts_with(scheme.as_str()));
            }
            said
        }
    }
}

impl Parts {
    fn take(u: &mut Unstructured<'_>) -> arbitrary::Result<Self> {
        let schemes = ["redis", "unix", "rediss", "redis+sentinel", "redis+cluster", "memory", "REDIS", ""];
        let scheme = match u.int_in_range(0..=schemes.len())? {
            given if given < schemes.len() => schemes[given].to_owned(),
            _ => String::arbitrary(u)?.replace(':', ""),
        };
        Ok(Self {
            is_socket: scheme.eq_ignore_ascii_case("unix"),
            scheme,
            user: String::arbitrary(u)?,
            // Or what follows would be another parameter of a socket than its password.
            before: String::arbitrary(u)?.replace('&', ""),
            after: String::arbitrary(u)?,
            host: String::arbitrary(u)?,
            tail: String::arbitrary(u)?,
        })
    }

    fn text(&self) -> String {
        let Self { scheme, user, before, after, host, tail, is_socket } = self;
        if *is_socket {
            format!("{scheme}:///{host}?user={user}&pass={before}{CANARY}{after}&{tail}")
        } else {
            format!("{scheme}://{user}:{before}{CANARY}{after}@{host}{tail}")
        }
    }
}
