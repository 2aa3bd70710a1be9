//! Conflicting settings. The configuration is refused, and the error names both settings and the change to make.

use std::time::Duration;

use leasehold::config::{Config, ConfigError, Conflict};
use leasehold::error::UrlError;

use super::{Folder, assert_message, read, refused, toml};

/// The two keys in conflict, and the reason.
#[track_caller]
fn conflict(text: &str) -> (String, String, Conflict) {
    match refused(toml(text)) {
        ConfigError::Conflict { one, other, why, .. } => (one.key, other.key, why),
        error => panic!("{text}: {error:?}"),
    }
}

/// The key that is missing.
#[track_caller]
fn missing(text: &str) -> String {
    match refused(toml(text)) {
        ConfigError::Missing { key, .. } => key,
        error => panic!("{text}: {error:?}"),
    }
}

#[test]
fn a_timeout_longer_than_the_hold_is_rejected() {
    let with = |watchdog: &str, timeout: &str| {
        toml(&format!("url = 'memory://'\nwatchdog = '{watchdog}'\ntimeout = '{timeout}'"))
    };
    for (watchdog, timeout) in
        [("30s", "3s"), ("1526ms", "3s"), ("1526ms", "10m"), ("1s", "600ms"), ("300ms", "190ms")]
    {
        assert!(with(watchdog, timeout).is_ok(), "{watchdog} and {timeout}");
    }
    for (watchdog, timeout) in
        [("1520ms", "3s"), ("1s", "3s"), ("1s", "660ms"), ("300ms", "200ms"), ("3ms", "1ms")]
    {
        let ConfigError::Conflict { why, .. } = refused(with(watchdog, timeout)) else {
            panic!("{watchdog}")
        };
        let Conflict::RenewalTooLate { least_lease, most_timeout, .. } = why else { panic!("{why:?}") };
        // The change that the error suggests is enough.
        let shown = |span: Duration| format!("{}ms", span.as_millis());
        assert!(with(&shown(least_lease), timeout).is_ok(), "{watchdog} and {timeout}: {least_lease:?}");
        if let Some(most) = most_timeout {
            assert!(with(watchdog, &shown(most)).is_ok(), "{watchdog} and {timeout}: {most:?}");
        }
    }
    let error = refused(with("1s", "3s")).to_string();
    let expected = "`watchdog` = \"1s\" (app.toml) and `timeout` = \"3s\" (app.toml) conflict: a slow renewal could end after \
                    the lease; raise the lease to 1s526ms or lower the timeout to 654ms";
    assert_eq!(without_folders(&error), expected);
}

/// The text with only the last part of each path.
fn without_folders(text: &str) -> String {
    let words = text.split('(').map(|part| match part.split_once(')') {
        Some((path, rest)) => format!("{}){rest}", path.rsplit('/').next().unwrap_or(path)),
        None => part.to_owned(),
    });
    words.collect::<Vec<_>>().join("(")
}

#[test]
fn a_timeout_that_no_source_sets_fits_the_shortest_lease() {
    for (text, timeout) in [
        ("watchdog = '1s'", "654ms"),
        ("watchdog = '300ms'", "195ms"),
        ("[rw_lock]\nwatchdog = '1s'", "654ms"),
        ("[rw_lock]\nwatchdog = '1s'\n[fair_lock]\nwatchdog = '300ms'", "195ms"),
        ("watchdog = '1s'\n[lock]\nlease = '20ms'", "654ms"),
        ("watchdog = '1526ms'", "3s"),
        ("", "3s"),
    ] {
        let config = toml(&format!("url = 'memory://'\n{text}")).unwrap().to_string();
        assert!(config.contains(&format!("\ntimeout = \"{timeout}\" # default\n")), "{text}: {config}");
    }
    let quorum = "[quorum]\nurls = ['memory://q1', 'memory://q2', 'memory://q3']";
    for (text, timeout) in
        [("watchdog = '500ms'", "326ms"), ("lock.lease = '400ms'", "393ms"), ("lock.lease = '20s'", "500ms")]
    {
        let config = toml(&format!("{text}\n{quorum}")).unwrap().to_string();
        assert!(config.contains(&format!("\nnode_timeout = \"{timeout}\" # default\n")), "{text}: {config}");
    }
    // No timeout fits.
    let told = refused(toml("url = 'memory://'\nwatchdog = '3ms'")).to_string();
    assert!(told.contains("`timeout` = \"1ms\" (default) conflict"), "{told}");
}

#[test]
fn an_unsuitable_watchdog_names_its_primitive() {
    let (one, other, _) = conflict("url = 'memory://'\ntimeout = '3s'\n[rw_lock]\nwatchdog = '1s'");
    assert_eq!((one.as_str(), other.as_str()), ("rw_lock.watchdog", "timeout"));
    // A fixed lease has no renewals, so it may be short.
    assert!(toml("url = 'memory://'\n[rw_lock]\nlease = '1s'").is_ok());
}

#[test]
fn contradictory_terms_are_rejected() {
    for (text, one, other, why) in [
        ("[lock]\nlease = '5s'\nwatchdog = '5s'", "lock.lease", "lock.watchdog", Conflict::Either),
        ("[lock]\nlease = '5s'\nmax_renewals = 3", "lock.lease", "lock.max_renewals", Conflict::NeverRenewed),
        (
            "[fair_lock]\nlease = '5s'\nmax_hold = '3s'",
            "fair_lock.lease",
            "fair_lock.max_hold",
            Conflict::NeverRenewed,
        ),
        (
            "[fair_lock]\nmin_hold = '6s'\nmax_hold = '5s'",
            "fair_lock.min_hold",
            "fair_lock.max_hold",
            Conflict::Order,
        ),
        (
            "[fair_lock]\nmin_hold = '6s'\nlease = '5s'",
            "fair_lock.min_hold",
            "fair_lock.lease",
            Conflict::Order,
        ),
        ("[rw_lock]\nmin_hold = '6s'\nlease = '5s'", "rw_lock.min_hold", "rw_lock.lease", Conflict::Order),
        ("[rw_lock]\nmargin = '30s'", "rw_lock.margin", "rw_lock.watchdog", Conflict::Margin),
        ("[lock]\nmargin = '5s'\nlease = '5s'", "lock.margin", "lock.lease", Conflict::Margin),
        (
            "[spin_lock]\nmargin = '3s'\nmax_hold = '2s'",
            "spin_lock.margin",
            "spin_lock.max_hold",
            Conflict::Margin,
        ),
        (
            "[spin_lock]\nbackoff_first = '1s'",
            "spin_lock.backoff_first",
            "spin_lock.backoff_longest",
            Conflict::Order,
        ),
    ] {
        let found = conflict(&format!("url = 'memory://'\n{text}"));
        assert_eq!(found, (one.to_owned(), other.to_owned(), why), "{text}");
    }
    let error = refused(toml("url = 'memory://'\n[lock]\nmin_hold = '6s'\nlease = '5s'")).to_string();
    let expected = "`lock.min_hold` = \"6s\" (app.toml) and `lock.lease` = \"5s\" (app.toml) conflict: `lock.min_hold` must \
                    not exceed `lock.lease`";
    assert_eq!(without_folders(&error), expected);
    assert!(toml("url = 'memory://'\n[lock]\nmin_hold = '5s'\nmax_hold = '5s'").is_ok());
    assert!(toml("url = 'memory://'\n[lock]\nmin_hold = '5s'\nlease = '5s'").is_ok());
    assert!(toml("url = 'memory://'\n[lock]\nmargin = '4s'\nlease = '5s'").is_ok());
}

#[test]
fn exactly_one_setting_names_the_server() {
    assert_eq!(missing("timeout = '3s'"), "url");
    assert_eq!(missing(""), "url");
    let both = "url = 'memory://'\n[standalone]\naddress = 'a'";
    assert_eq!(conflict(both), ("url".into(), "standalone.address".into(), Conflict::Either));
    let both = "[sentinel]\nmaster = 'm'\n[quorum]\naddresses = ['a']";
    assert_eq!(conflict(both).2, Conflict::Either);
}

#[test]
fn an_incomplete_section_names_the_missing_key() {
    for (text, key) in [
        ("[standalone]\ndatabase = 1", "standalone.address"),
        ("[standalone]\naddress = 'a'\nuser = 'u'", "standalone.password"),
        ("[quorum]\naddresses = []", "quorum.addresses"),
        ("[quorum]\naddresses = ['a', 'b', 'c']\nuser = 'u'", "quorum.password"),
    ] {
        assert_eq!(missing(text), key, "{text}");
    }
}

#[test]
fn inconsistent_server_settings_are_rejected() {
    for (text, one, other) in [
        (
            "[standalone]\naddress = 'a'\npassword = 'p'\npassword_file = '/p'",
            "standalone.password",
            "standalone.password_file",
        ),
        ("[quorum]\naddresses = ['a']\nurls = ['redis://b']", "quorum.addresses", "quorum.urls"),
        ("[quorum]\nurls = ['redis://b']\ndatabase = 3", "quorum.database", "quorum.urls"),
        ("[quorum]\nurls = ['redis://b']\npassword = 'p'", "quorum.password", "quorum.urls"),
    ] {
        let (found, with, _) = conflict(text);
        assert_eq!((found.as_str(), with.as_str()), (one, other), "{text}");
    }
}

#[test]
fn a_timeout_that_leaves_nothing_of_the_lease_of_a_quorum_is_rejected() {
    for (text, key) in [("[lock]\nlease = '500ms'", "lock.lease"), ("watchdog = '700ms'", "watchdog")] {
        let quorum = "[quorum]\naddresses = ['a', 'b', 'c']\nnode_timeout = '500ms'";
        let (found, with, _) = conflict(&format!("{text}\n{quorum}"));
        assert_eq!((found.as_str(), with.as_str()), (key, "quorum.node_timeout"), "{text}");
    }
}

#[test]
fn a_quorum_rejects_unsupported_and_unsafe_settings() {
    let with = |text: &str| conflict(&format!("{text}\n[quorum]\naddresses = ['a', 'b', 'c']"));
    for (text, one, other) in [
        ("timeout = '3s'", "timeout", "quorum.addresses"),
        ("lazy = false", "lazy", "quorum.addresses"),
        ("[lock]\nmax_hold = '1h'", "lock.max_hold", "quorum.addresses"),
        ("[rw_lock]\nlease = '9s'", "rw_lock.lease", "quorum.addresses"),
        ("watchdog = '31s'", "watchdog", "quorum.longest_lease"),
        ("[lock]\nlease = '31s'", "lock.lease", "quorum.longest_lease"),
    ] {
        let (found, with, _) = with(text);
        assert_eq!((found.as_str(), with.as_str()), (one, other), "{text}");
    }
    let quorum = "[quorum]\naddresses = ['a', 'b', 'c']\npersist_every_write = true";
    assert!(toml(&format!("watchdog = '31s'\n{quorum}")).is_ok(), "they forget nothing");
    let both = format!("{quorum}\nlongest_lease = '9s'");
    assert_eq!(conflict(&both).0, "quorum.longest_lease");
    for addresses in ["['a', 'b', 'a']", "['a', 'b', 'A:6379']"] {
        let error = refused(toml(&format!("[quorum]\naddresses = {addresses}")));
        assert!(error.to_string().contains("named twice"), "{error}");
    }
    let error = refused(toml("[quorum]\nurls = ['redis://:p@a', 'redis://:q@a:6379/1']"));
    assert!(error.to_string().contains("named twice"), "{error}");
}

#[test]
fn an_invalid_prefix_is_rejected() {
    for prefix in ["a{b", "a}", "a\\u000A", "redisson_lock_queue:", "leasehold_", &"x".repeat(512)] {
        let error = refused(toml(&format!("url = 'memory://'\nkey_prefix = \"{prefix}\"")));
        assert!(matches!(error, ConfigError::KeyPrefix { .. }), "{prefix}: {error}");
    }
    let set_by_program = Config::builder().set("url", "memory://").set("key_prefix", "leasehold_");
    let message = "set by the program: `key_prefix` cannot begin a name: the name begins with `leasehold_`, which is \
                reserved for helper keys";
    assert_message(&refused(set_by_program.build()), message);
}

#[test]
fn an_invalid_url_or_address_is_rejected() {
    for (text, key) in [
        ("url = 'localhost'", "url"),
        ("url = 'http://a'", "url"),
        ("url = 'memory://a/b'", "url"),
        ("[standalone]\naddress = 'a:port'", "standalone.address"),
        ("[standalone]\naddress = 'redis://a'", "standalone.address"),
        ("[quorum]\naddresses = ['a', 'b c']", "quorum.addresses"),
        ("[quorum]\naddresses = ['a', '']", "quorum.addresses"),
        ("[quorum]\nurls = ['redis://a', 'b']", "quorum.urls"),
    ] {
        match refused(toml(text)) {
            ConfigError::Url { key: found, .. } | ConfigError::Value { key: found, .. } => {
                assert_eq!(found, key);
            }
            error => panic!("{text}: {error:?}"),
        }
    }
    let error = refused(toml("url = 'redis://h:99999'"));
    assert!(matches!(&error, ConfigError::Url { cause: UrlError::BadPort, .. }), "{error:?}");
    let set_by_program = Config::builder().set("url", "redis://h:99999");
    let message = "set by the program: `url` cannot be used: the URL's port is not a number from 1 to 65535";
    assert_message(&refused(set_by_program.build()), message);
}

#[test]
fn an_unreadable_configuration_file_is_an_error() {
    let folder = Folder::new();
    let empty = folder.file("empty", "\n");
    let error = refused(toml("[standalone]\naddress = 'a'\npassword_file = '/nowhere/password'"));
    assert!(matches!(error, ConfigError::NamedFile { .. }), "{error}");
    let set_by_program =
        Config::builder().set("standalone.address", "a").set("standalone.password_file", "/nowhere/password");
    let message = "set by the program: the file of `standalone.password_file` cannot be read: No such file or directory (os \
                error 2)";
    assert_message(&refused(set_by_program.build()), message);
    let error = refused(toml(&format!("[standalone]\naddress = 'a'\npassword_file = '{}'", empty.display())));
    assert!(error.to_string().contains("a password that is not empty"), "{error}");
}

#[test]
fn no_file_content_causes_a_panic() {
    for text in [
        "",
        "\0",
        "[",
        "{}",
        "a: &a [*a]",
        "url: [",
        "url = {}",
        "[[lock]]",
        "lock = [{}]",
        "\u{feff}url = 'x'",
    ] {
        for name in ["a.toml", "a.yaml", "a.json"] {
            let _ = refused(read(name, text));
        }
    }
    let _ = refused(Config::builder().variables([("LEASEHOLD_LOCK", "x")]).build());
}
