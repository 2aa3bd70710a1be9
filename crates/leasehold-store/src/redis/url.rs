//! The URL of a server.
//!
//! Invariant: the password is in no `Debug`, no `Display` and no error. An error carries no text of the URL but its
//! scheme.

mod parse;
mod server_url;

use std::str::FromStr;

pub(crate) use self::server_url::Servers;
pub use self::server_url::{Address, ServerUrl};
pub use crate::url::UrlError;

impl ServerUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// Returns [`UrlError`], which names the wrong part without repeating it, because it might be the password.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        parse::url(text)
    }
}

impl FromStr for ServerUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::server_url::Credentials;
    use super::*;
    use proptest::prelude::*;

    const CANARY: &str = "hunter2";

    fn tcp(text: &str) -> (String, u16, Option<Credentials>, u32) {
        let url = ServerUrl::parse(text).unwrap();
        let Servers::One(Address::Tcp { host, port }) = url.servers else { panic!("{text} is tcp") };
        (host, port, url.credentials, url.db)
    }

    fn login(user: Option<&str>, password: &str) -> Option<Credentials> {
        Some(Credentials { user: user.map(Into::into), password: password.into() })
    }

    #[test]
    fn omitted_parts_have_defaults() {
        assert_eq!(tcp("redis://cache"), ("cache".into(), 6379, None, 0));
        assert_eq!(tcp("REDIS://cache/"), ("cache".into(), 6379, None, 0));
        assert_eq!(tcp("redis://:@cache:7000"), ("cache".into(), 7000, None, 0));
        assert_eq!(tcp("redis://[::1]:7000/3"), ("::1".into(), 7000, None, 3));
        assert_eq!(tcp("redis://[fe80::1]"), ("fe80::1".into(), 6379, None, 0));
    }

    #[test]
    fn user_and_password_are_decoded() {
        assert_eq!(tcp("redis://:word@h").2, login(None, "word"));
        assert_eq!(tcp("redis://app:w%3Ao%2Fr%40d@h").2, login(Some("app"), "w:o/r@d"));
        assert_eq!(tcp("redis://a%40b:p:q@r@h:1").2, login(Some("a@b"), "p:q@r"));
    }

    #[test]
    fn a_socket_has_a_path_and_parameters() {
        let url = ServerUrl::parse("unix:///run/re%20dis.sock?db=2&user=app&pass=p%26q").unwrap();
        assert!(
            matches!(&url.servers, Servers::One(Address::Unix { path }) if path.to_str() == Some("/run/re dis.sock"))
        );
        assert_eq!((url.credentials, url.db), (login(Some("app"), "p&q"), 2));
    }

    #[test]
    fn every_mistake_has_its_own_error() {
        let mistakes = [
            ("", UrlError::NoScheme),
            ("localhost:6379", UrlError::NoScheme),
            ("hunter2 ://x", UrlError::NoScheme),
            ("http://h", UrlError::UnknownScheme { scheme: "http".into() }),
            ("rediss://h", UrlError::NotBuiltIn { scheme: "rediss", feature: None }),
            ("redis+sentinel://h", UrlError::NotBuiltIn { scheme: "redis+sentinel", feature: None }),
            ("redis-sentinel://h", UrlError::NotBuiltIn { scheme: "redis-sentinel", feature: None }),
            ("sentinel://h", UrlError::NotBuiltIn { scheme: "sentinel", feature: None }),
            ("redis+cluster://h", UrlError::NotBuiltIn { scheme: "redis+cluster", feature: None }),
            ("memory://", UrlError::NotBuiltIn { scheme: "memory", feature: Some("embedded") }),
            ("redis://", UrlError::NoHost),
            ("redis://:6379", UrlError::NoHost),
            ("redis://u:p@:6379", UrlError::NoHost),
            ("redis://a b", UrlError::BadHost),
            ("redis://[::1", UrlError::BadHost),
            ("redis://[cache]", UrlError::BadHost),
            ("redis://h:", UrlError::BadPort),
            ("redis://h:0", UrlError::BadPort),
            ("redis://h:65536", UrlError::BadPort),
            ("redis://h:+1", UrlError::BadPort),
            ("redis://[::1]6379", UrlError::BadPort),
            ("redis://h/x", UrlError::BadDatabase),
            ("redis://h/-1", UrlError::BadDatabase),
            ("redis://h/4294967296", UrlError::BadDatabase),
            ("redis://user@h", UrlError::NoPassword),
            ("redis://user:@h", UrlError::NoPassword),
            ("redis://:pa/ss@h", UrlError::UnescapedCredentials),
            ("redis://:pa#ss@h", UrlError::UnescapedCredentials),
            ("redis://:%4@h", UrlError::BadEscape),
            ("redis://:%zz@h", UrlError::BadEscape),
            ("redis://:%ff@h", UrlError::BadEscape),
            ("redis://h?protocol=resp3", UrlError::UnknownParameter),
            ("redis://h/0#x", UrlError::UnknownParameter),
            ("unix://run/redis.sock", UrlError::NoPath),
            ("unix:///", UrlError::NoPath),
            ("unix:///s?db=x", UrlError::BadDatabase),
            ("unix:///s?user=app", UrlError::NoPassword),
            ("unix:///s?timeout=1", UrlError::UnknownParameter),
        ];
        for (text, error) in mistakes {
            assert_eq!(ServerUrl::parse(text), Err(error), "{text}");
        }
    }

    #[test]
    fn the_displayed_url_masks_the_password_and_parses_again() {
        for (text, shown) in [
            ("redis://h", "redis://h:6379"),
            ("redis://:hunter2@[::1]/4", "redis://:***@[::1]:6379/4"),
            ("redis://a%0Ab:hunter2@h:1", "redis://a%0Ab:***@h:1"),
            ("unix:///s%0A?pass=hunter2&user=a", "unix:///s%0A?user=a&pass=***"),
            ("unix:///s", "unix:///s"),
            ("unix:///s?pass=hunter2&db=3", "unix:///s?db=3&user=&pass=***"),
        ] {
            let url = ServerUrl::parse(text).unwrap();
            assert_eq!(url.to_string(), shown);
            assert_eq!(format!("{url:?}"), format!("ServerUrl({shown})"));
            let again = ServerUrl::parse(&shown.replace("***", CANARY)).unwrap();
            assert_eq!(again, url);
        }
    }

    proptest! {
        #[test]
        fn parsing_any_text_never_panics(text in ".{0,80}") {
            let _ = ServerUrl::parse(&text);
        }

        #[test]
        fn text_like_a_url_never_shows_its_password(
            scheme in "redis|unix|rediss|redis\\+cluster|http|memory|",
            before in "[a-z:@/?#%&=\\[\\]0-9]{0,12}",
            after in "[a-z:@/?#%&=\\[\\]0-9]{0,20}",
        ) {
            let text = format!("{scheme}://{before}{CANARY}{after}");
            match ServerUrl::parse(&text) {
                // Outside the place of the password the word is a user, a host or a path.
                Ok(url) => if url.credentials.as_ref().is_some_and(|login| login.password.contains(CANARY)) {
                    prop_assert!(!format!("{url} {url:?}").contains(CANARY), "{text}");
                },
                Err(error) => prop_assert!(!format!("{error} {error:?}").contains(CANARY), "{text}"),
            }
        }
    }
}
