//! URLs. Any text is parsed without a panic, and the password never appears in the output.
//!
//! Invariant: the target itself puts the password in its place in the URL.

use arbitrary::{Arbitrary, Unstructured};
use leasehold_store::url::{ServerUrl, UrlError};

/// A password that no other part contains by chance.
const CANARY: &str = "qXz7hunter2";

/// The parts of a URL, each any text.
#[derive(Debug)]
struct Parts {
    scheme: String,
    user: String,
    before: String,
    after: String,
    host: String,
    tail: String,
    form: Form,
}

/// The place of the password in a URL.
#[derive(Debug)]
enum Form {
    /// In front of the host.
    Login,
    /// In a parameter of a socket.
    Socket,
    /// In a parameter behind the service of Sentinels.
    Sentinel,
}

/// Parses bytes as a URL, and as the parts of a URL with a password.
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

/// Returns all output of the library about a URL.
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
        let schemes = [
            "redis",
            "unix",
            "rediss",
            "redis+sentinel",
            "valkeys-sentinel",
            "redis+cluster",
            "rediss-cluster",
            "valkey",
            "memory",
            "REDIS",
            "",
        ];
        let scheme = match u.int_in_range(0..=schemes.len())? {
            given if given < schemes.len() => schemes[given].to_owned(),
            _ => String::arbitrary(u)?.replace(':', ""),
        };
        Ok(Self {
            form: match scheme.to_ascii_lowercase().as_str() {
                "unix" => Form::Socket,
                scheme if scheme.ends_with("sentinel") && bool::arbitrary(u)? => Form::Sentinel,
                _ => Form::Login,
            },
            scheme,
            user: String::arbitrary(u)?,
            // An `&` would end the password and begin another parameter of a socket URL.
            before: String::arbitrary(u)?.replace('&', ""),
            after: String::arbitrary(u)?,
            host: String::arbitrary(u)?,
            tail: String::arbitrary(u)?,
        })
    }

    fn text(&self) -> String {
        let Self { scheme, user, before, after, host, tail, form } = self;
        match form {
            Form::Login => format!("{scheme}://{user}:{before}{CANARY}{after}@{host}{tail}"),
            Form::Socket => format!("{scheme}:///{host}?user={user}&pass={before}{CANARY}{after}&{tail}"),
            Form::Sentinel => {
                let login = format!("sentinel_username={user}&sentinel_password={before}{CANARY}{after}");
                format!("{scheme}://{host}/m?{login}&{tail}")
            }
        }
    }
}
