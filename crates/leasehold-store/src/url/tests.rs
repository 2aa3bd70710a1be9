//! Tests: which URLs are accepted, how they are split, and what their masked text shows.

use super::*;
use proptest::prelude::*;

const CANARY: &str = "hunter2";

fn tcp(text: &str) -> (String, u16, Option<Credentials>, u32) {
    let url = ServerUrl::parse(text).unwrap();
    let Servers::One(Address::Tcp { host, port }) = url.servers else { panic!("{text} is tcp") };
    (host, port, url.credentials, url.db)
}

fn passwords(url: &ServerUrl) -> impl Iterator<Item = &str> {
    let of_sentinels = match &url.servers {
        Servers::Sentinel { credentials, .. } => credentials.as_ref(),
        _ => None,
    };
    url.credentials.iter().chain(of_sentinels).map(|login| login.password.as_str())
}

fn login(user: Option<&str>, password: &str) -> Option<Credentials> {
    Some(Credentials { user: user.map(Into::into), ..Credentials::password(password) })
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
fn sentinels_have_a_service_and_a_login_of_their_own() {
    let url = ServerUrl::parse(
        "valkeys-sentinel://app:word@s1,[::1]:5000/the%2Fmaster/3?sentinel_password=p%26q&sentinel_username=s",
    )
    .unwrap();
    let Servers::Sentinel { sentinels, service, credentials } = &url.servers else { panic!("{url}") };
    let at = |host: &str, port| Address::Tcp { host: host.into(), port };
    assert_eq!(sentinels, &[at("s1", 26379), at("::1", 5000)]);
    assert_eq!((service.as_str(), credentials), ("the/master", &login(Some("s"), "p&q")));
    assert_eq!((url.tls, &url.credentials, url.db), (true, &login(Some("app"), "word"), 3));
    let url = ServerUrl::parse("redis+sentinel://s1/m?sentinel_password=p").unwrap();
    let Servers::Sentinel { credentials, .. } = &url.servers else { panic!("{url}") };
    assert_eq!((credentials, url.credentials, url.tls), (&login(None, "p"), None, false));
}

#[test]
fn a_cluster_has_seeds_and_a_database() {
    for (text, db) in [("redis-cluster://:word@a,b:7000", 0), ("valkey+cluster://:word@a:6379,b:7000/3", 3)] {
        let url = ServerUrl::parse(text).unwrap();
        let at = |host: &str, port| Address::Tcp { host: host.into(), port };
        assert_eq!(url.servers, Servers::Cluster { seeds: vec![at("a", 6379), at("b", 7000)] });
        assert_eq!((url.tls, url.credentials, url.db), (false, login(None, "word"), db));
    }
}

#[test]
fn every_mistake_has_its_own_error() {
    let mistakes = [
        ("", UrlError::NoScheme),
        ("localhost:6379", UrlError::NoScheme),
        ("hunter2 ://x", UrlError::NoScheme),
        ("http://h", UrlError::UnknownScheme { scheme: "http".into() }),
        ("sentinel://h", UrlError::UnknownScheme { scheme: "sentinel".into() }),
        ("memory://", UrlError::NotBuiltIn { scheme: "memory", feature: Some("embedded") }),
        ("redis://", UrlError::NoHost),
        ("redis://:6379", UrlError::NoHost),
        ("redis://u:p@:6379", UrlError::NoHost),
        ("redis://a b", UrlError::BadHost),
        ("redis://a,b", UrlError::BadHost),
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
        ("redis+cluster://a,b/x", UrlError::BadDatabase),
        ("redis+cluster://a,b/x", UrlError::BadDatabase),
        ("redis+cluster://a,,b", UrlError::NoHost),
        ("redis+cluster://a,", UrlError::NoHost),
        ("redis+cluster://a,b:x", UrlError::BadPort),
        ("redis+cluster://a?x=1", UrlError::UnknownParameter),
        ("redis+sentinel://a,b", UrlError::NoService),
        ("redis+sentinel://a,b/", UrlError::NoService),
        ("redis+sentinel://a,b//1", UrlError::NoService),
        ("redis+sentinel:///m", UrlError::NoHost),
        ("redis+sentinel://a/m/x", UrlError::BadDatabase),
        ("redis+sentinel://a/m/1/2", UrlError::BadDatabase),
        ("redis+sentinel://a/m?sentinel_user=u", UrlError::UnknownParameter),
        ("redis+sentinel://a/m?sentinel_username=u", UrlError::NoPassword),
        ("redis+sentinel://a/m?sentinel_password=hunter2@", UrlError::UnescapedCredentials),
        ("redis+sentinel://a/m?sentinel_password=%zz", UrlError::BadEscape),
        ("redis+sentinel://a/%zz", UrlError::BadEscape),
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
fn the_displayed_url_masks_the_passwords_and_parses_again() {
    for (text, shown) in [
        ("redis://h", "redis://h:6379"),
        ("redis://:hunter2@[::1]/4", "redis://:***@[::1]:6379/4"),
        ("redis://a%0Ab:hunter2@h:1", "redis://a%0Ab:***@h:1"),
        ("redis://a%2Fb%3A:hunter2@h", "redis://a%2Fb%3A:***@h:6379"),
        ("valkeys://h", "rediss://h:6379"),
        ("redis-cluster://:hunter2@a,[::1]:7", "redis+cluster://:***@a:6379,[::1]:7"),
        ("rediss-sentinel://a,b/m%2F", "rediss+sentinel://a:26379,b:26379/m%2F"),
        (
            "redis+sentinel://:hunter2@a/m/3?sentinel_password=hunter2",
            "redis+sentinel://:***@a:26379/m/3?sentinel_username=&sentinel_password=***",
        ),
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
        scheme in "(redis|rediss|valkey|valkeys)(\\+sentinel|-sentinel|\\+cluster|-cluster|)|unix|http|memory|",
        before in "[a-z:@/?#%&=,\\[\\]0-9]{0,12}",
        after in "[a-z:@/?#%&=,\\[\\]0-9]{0,20}",
    ) {
        let text = format!("{scheme}://{before}{CANARY}{after}");
        match ServerUrl::parse(&text) {
            // Outside the place of a password the word is a user, a host, a path or a service.
            Ok(url) => if passwords(&url).any(|password| password.contains(CANARY)) {
                prop_assert!(!format!("{url} {url:?}").contains(CANARY), "{text}");
            },
            Err(error) => prop_assert!(!format!("{error} {error:?}").contains(CANARY), "{text}"),
        }
    }

    #[test]
    fn a_url_of_any_parts_is_shown_and_parses_again(
        scheme in "(redis|valkeys)(\\+sentinel|-cluster|)",
        user in ".{0,8}",
        service in ".{1,8}",
        hosts in proptest::collection::vec("[a-z]{1,3}(:[1-9])?|\\[::[1-9]\\](:[1-9])?", 1..4),
        db in 0_u32..3,
    ) {
        let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
        let (user, service) = (encoded(&user), encoded(&service));
        let (hosts, tail) = match &scheme {
            scheme if scheme.ends_with("sentinel") => {
                let login = format!("?sentinel_username={user}&sentinel_password={CANARY}");
                (hosts.join(","), format!("/{service}/{db}{login}"))
            }
            scheme if scheme.ends_with("cluster") => (hosts.join(","), format!("/{db}")),
            _ => (hosts[0].clone(), format!("/{db}")),
        };
        let url = ServerUrl::parse(&format!("{scheme}://{user}:{CANARY}@{hosts}{tail}")).unwrap();
        let shown = url.to_string();
        prop_assert!(!shown.contains(CANARY) && !shown.contains(char::is_control), "{shown}");
        prop_assert_eq!(ServerUrl::parse(&shown.replace("***", CANARY)), Ok(url));
    }
}

#[test]
fn an_address_of_a_cluster_is_also_that_of_a_single_server() {
    let at = |text: &str| ServerUrl::parse(text).unwrap();
    assert!(at("redis://A:6379/1").is_at(&at("rediss+cluster://:word@a")));
    assert!(!at("redis+sentinel://a/one").is_at(&at("redis+sentinel://a/other")));
    assert!(!at("redis://a").is_at(&at("redis://a:7")));
}

#[test]
fn a_socket_needs_more_than_a_slash() {
    assert_eq!(Address::server("/"), Err(UrlError::NoPath));
    assert_eq!(Address::server("/s"), Ok(Address::Unix { path: "/s".into() }));
}
