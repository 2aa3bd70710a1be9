//! Decides who may read the page.
//!
//! Invariant: a request is refused for its host before anything else is looked at, and no answer is given without the token.
//! The page itself has no data, so it needs no token.

use std::fmt::Write as _;
use std::time::Duration;

use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::http::request::Parts;
use hyper::{HeaderMap, StatusCode};

use crate::clock::{Instant, now};

/// The wrong tokens of a second after which further ones are not looked at. A token is too long to be guessed at any rate, so
/// this keeps logs short.
const FAILURES: u32 = 10;
const SECOND: Duration = Duration::from_secs(1);

/// The rules of one start of the command.
#[derive(Debug)]
pub(super) struct Access {
    token: String,
    /// The hosts under which browsers may reach the page, in lower case.
    hosts: Vec<String>,
    failures: std::sync::Mutex<(Instant, u32)>,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) text: &'static str,
}

const fn refusal(status: StatusCode, text: &'static str) -> Refusal {
    Refusal { status, text }
}

impl Access {
    /// Allows these hosts, each with or without its port.
    pub(super) fn new(token: String, hosts: impl IntoIterator<Item = String>) -> Self {
        let hosts = hosts.into_iter().map(|host| host.to_ascii_lowercase()).collect();
        Self { token, hosts, failures: std::sync::Mutex::new((now(), 0)) }
    }

    /// Refuses a request of another host. A page of a stranger whose name resolves to this machine has the stranger's host,
    /// and its reads have no other sign.
    pub(super) fn check_host(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let mut hosts = headers.get_all(HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok()).map(str::to_ascii_lowercase);
        let is_known = host.is_some_and(|host| self.hosts.contains(&host)) && hosts.next().is_none();
        let why = "this host is not served; allow it with --allow-host";
        if is_known { Ok(()) } else { Err(refusal(StatusCode::MISDIRECTED_REQUEST, why)) }
    }

    /// Refuses a request without the token.
    pub(super) fn check_token(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        // Any page that a browser shows can send wrong tokens, and must not lock out the right one.
        let given = headers.get(AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        if given.is_some_and(|given| is_equal(given, self.token.as_bytes())) {
            return Ok(());
        }
        let mut failures = self.failures.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if failures.0.elapsed() >= SECOND {
            *failures = (now(), 0);
        }
        if failures.1 >= FAILURES {
            return Err(refusal(StatusCode::TOO_MANY_REQUESTS, "too many wrong tokens; wait a second"));
        }
        failures.1 += 1;
        Err(refusal(StatusCode::UNAUTHORIZED, "the token is missing or wrong"))
    }

    /// Refuses a change that another site's page may have sent.
    pub(super) fn check_change(parts: &Parts) -> Result<(), Refusal> {
        let header = |name: &str| parts.headers.get(name).map(|value| value.to_str().unwrap_or_default());
        let kind = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if kind.split(';').next().unwrap_or_default().trim() != "application/json" {
            return Err(refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "a change must be application/json"));
        }
        match header("sec-fetch-site") {
            None | Some("same-origin") => Ok(()),
            Some(_) => Err(refusal(StatusCode::FORBIDDEN, "a change must come from the page itself")),
        }
    }
}

/// Compares in a time that does not tell how far the texts are equal.
fn is_equal(given: &[u8], token: &[u8]) -> bool {
    let differing = given.iter().zip(token).fold(0, |differing, (one, other)| differing | (one ^ other));
    given.len() == token.len() && std::hint::black_box(differing) == 0
}

/// Returns a new token.
pub(super) fn new_token() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn access() -> Access {
        Access::new("secret".to_owned(), ["localhost:8300".to_owned(), "Locks.Example.org".to_owned()])
    }

    fn parts(headers: &[(&str, &str)]) -> Parts {
        let request =
            headers.iter().fold(Request::builder(), |request, (name, value)| request.header(*name, *value));
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn only_known_hosts_are_served() {
        let status = |hosts: &[&str]| {
            let headers: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
            access().check_host(&parts(&headers).headers).map_err(|refusal| refusal.status.as_u16())
        };
        assert_eq!(status(&["localhost:8300"]), Ok(()));
        assert_eq!(status(&["LOCKS.example.org"]), Ok(()));
        for hosts in [
            &[][..],
            &["evil.example.org"],
            &["localhost"],
            &["localhost:8300", "evil"],
            &["localhost:8300.evil"],
        ] {
            assert_eq!(status(hosts), Err(421), "{hosts:?}");
        }
    }

    #[test]
    fn a_token_is_compared_whole_and_guessing_is_slowed_down() {
        let access = access();
        let status = |value: &str| {
            let headers = parts(&[("authorization", value)]).headers;
            access.check_token(&headers).map_err(|refusal| refusal.status.as_u16())
        };
        assert_eq!(status("Bearer secret"), Ok(()));
        for wrong in ["Bearer secre", "Bearer secrets", "Bearer SECRET", "secret", "Basic secret", "Bearer "]
        {
            assert_eq!(status(wrong), Err(401), "{wrong}");
        }
        let refused = (0..FAILURES).map(|_| status("Bearer x")).filter(|status| *status == Err(429)).count();
        assert!(refused >= 6, "{refused} of the last ten");
        assert_eq!(status("Bearer secret"), Ok(()), "wrong ones of others do not lock it out");
    }

    #[test]
    fn a_change_comes_from_the_page_itself() {
        let status = |headers: &[(&str, &str)]| {
            Access::check_change(&parts(headers)).map_err(|refusal| refusal.status.as_u16())
        };
        let json = ("content-type", "application/json");
        assert_eq!(status(&[json]), Ok(()));
        assert_eq!(
            status(&[("content-type", "application/json; charset=utf-8"), ("sec-fetch-site", "same-origin")]),
            Ok(())
        );
        for site in ["cross-site", "same-site", "none"] {
            assert_eq!(status(&[json, ("sec-fetch-site", site)]), Err(403), "{site}");
        }
        for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp"] {
            assert_eq!(status(&[("content-type", kind)]), Err(415), "{kind}");
        }
        assert_eq!(status(&[]), Err(415));
    }

    #[test]
    fn tokens_differ() {
        let [one, other] = [new_token().unwrap(), new_token().unwrap()];
        assert!(one != other && one.len() == 64);
    }
}
