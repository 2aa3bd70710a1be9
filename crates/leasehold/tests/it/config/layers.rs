//! The precedence of sources, and the variables of the environment.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use leasehold::config::{Config, ConfigBuilder, ConfigError, Source};

use super::{Folder, refused};

/// The printed line of a key.
fn printed_line(config: &Config, key: &str) -> String {
    let printed = config.to_string();
    let found = printed.lines().find(|line| line.starts_with(&format!("{key} = ")));
    found.unwrap_or_else(|| panic!("no {key} in\n{printed}")).to_owned()
}

#[test]
fn the_program_overrides_environment_then_files_then_defaults() {
    let folder = Folder::new();
    let first =
        folder.file("a.toml", "url = 'memory://'\ntimeout = '11s'\npoll_interval = '11s'\nwatchdog = '11s'");
    let second = folder.file("b.yaml", "poll_interval: 12s\nwatchdog: 12s\nclient_name: b");
    // The order of these calls differs from the precedence on purpose.
    let config = Config::builder()
        .client_name("code")
        .variables([("LEASEHOLD_WATCHDOG", "13s"), ("LEASEHOLD_CLIENT_NAME", "env")])
        .file(&first)
        .file(&second)
        .build()
        .unwrap();
    assert_eq!(printed_line(&config, "timeout"), format!("timeout = \"11s\" # {}", first.display()));
    assert_eq!(
        printed_line(&config, "poll_interval"),
        format!("poll_interval = \"12s\" # {}", second.display())
    );
    assert_eq!(printed_line(&config, "watchdog"), "watchdog = \"13s\" # LEASEHOLD_WATCHDOG");
    assert_eq!(printed_line(&config, "client_name"), "client_name = \"code\" # set by the program");
    assert_eq!(printed_line(&config, "sharded_pubsub"), "sharded_pubsub = \"auto\" # default");
}

#[test]
fn every_kind_of_value_can_be_a_variable() {
    let config = Config::builder()
        .variables([
            ("LEASEHOLD_QUORUM__ADDRESSES", "a:1, b:1,c:1"),
            ("LEASEHOLD_QUORUM__DATABASE", "3"),
            ("LEASEHOLD_QUORUM__PERSIST_EVERY_WRITE", "true"),
            ("LEASEHOLD_QUORUM__TLS__ENABLED", "false"),
            ("LEASEHOLD_QUORUM__PASSWORD", "123"),
            ("LEASEHOLD_LOCK__WATCHDOG", "1m30s"),
            ("LEASEHOLD_KEY_PREFIX", "true"),
            ("PATH", "/bin"),
            ("LEASEHOLD_NAME", "of a program under `leasehold run`"),
            ("LEASEHOLD_OWNER", "so is this"),
        ])
        .build()
        .unwrap();
    assert!(config.is_quorum());
    assert!(printed_line(&config, "addresses").starts_with("addresses = [\"a:1\", \"b:1\", \"c:1\"]"));
    assert!(printed_line(&config, "key_prefix").starts_with("key_prefix = \"true\""));
}

#[test]
fn a_variable_that_is_none_is_refused_with_a_suggestion() {
    for (name, expected) in [
        ("LEASEHOLD_TIMOUT", Some("LEASEHOLD_TIMEOUT")),
        ("LEASEHOLD_LOCK_MAX_HOLD", Some("LEASEHOLD_LOCK__MAX_HOLD")),
        ("LEASEHOLD_", None),
        ("LEASEHOLD_SERVER", None),
    ] {
        let error = refused(Config::builder().url("memory://").variables([(name, "3s")]).build());
        let ConfigError::UnknownKey { set_by, suggestion: found, .. } = &error else {
            panic!("{name}: {error}")
        };
        assert_eq!(set_by, &Source::Variable(name.into()));
        assert!(expected.is_none() || found.as_deref() == expected, "{name}: {error}");
        assert!(error.to_string().contains(name), "{error}");
    }
    let value = OsString::from_vec(b"3\xff".to_vec());
    let error = refused(Config::builder().variables([("LEASEHOLD_TIMEOUT", value)]).build());
    assert!(
        matches!(error, ConfigError::NotUnicode { .. }) && error.to_string().contains("LEASEHOLD_TIMEOUT")
    );
}

#[test]
fn the_last_source_that_names_a_server_decides() {
    let folder = Folder::new();
    let file = folder.file("a.toml", "[standalone]\naddress = 'a:1'\nuser = 'u'\npassword = 'p'");
    let with_file = |builder: ConfigBuilder| builder.file(&file).build().unwrap().to_string();
    let replaced = with_file(Config::builder().variables([("LEASEHOLD_URL", "memory://")]));
    assert!(replaced.contains("url = \"memory://\" # LEASEHOLD_URL") && !replaced.contains("standalone"));
    let replaced = with_file(Config::builder().set("quorum.addresses", ["a", "b", "c"]));
    assert!(replaced.contains("[quorum]") && !replaced.contains("standalone"), "{replaced}");
    // A section without settings names no server.
    let empty = folder.file("empty.toml", "[quorum]\n[sentinel]\n[standalone.tls]\nenabled = false");
    let kept = Config::builder().file(&file).file(empty).build().unwrap().to_string();
    assert!(kept.contains("address = \"a:1\"") && !kept.contains("[quorum]"), "{kept}");
    // Settings of one server merge across sources.
    let secret = folder.file("secret", "q\n");
    let variable = [("LEASEHOLD_STANDALONE__PASSWORD_FILE", secret.to_str().unwrap())];
    let added = with_file(Config::builder().variables(variable));
    assert!(added.contains("address = \"a:1\"") && added.contains("password_file"), "{added}");
    assert!(!added.contains("password = "), "{added}");
}

#[test]
fn a_value_that_a_later_source_replaces_must_be_valid_too() {
    let folder = Folder::new();
    for text in ["url = 'memory://'\ntimeout = 'soon'", "[standalone]\naddres = 'a'"] {
        let file = folder.file("a.toml", text);
        let variables = [("LEASEHOLD_URL", "memory://"), ("LEASEHOLD_TIMEOUT", "3s")];
        let error = refused(Config::builder().file(&file).variables(variables).build());
        assert!(error.to_string().starts_with(&*file.to_string_lossy()), "{error}");
    }
}

#[test]
fn a_lease_of_a_later_source_replaces_a_watchdog() {
    let folder = Folder::new();
    let file = folder.file("a.toml", "url = 'memory://'\n[lock]\nwatchdog = '9s'");
    let config = Config::builder().file(file).set("lock.lease", Duration::from_secs(8)).build().unwrap();
    let printed = config.to_string();
    let (_, lock) = printed.split_once("[lock]\n").unwrap();
    assert!(lock.starts_with("lease = \"8s\" # set by the program\n\n[fair_lock]"), "{printed}");
}

#[test]
fn setting_an_unknown_key_in_the_program_is_an_error() {
    let error = refused(Config::builder().url("memory://").set("lock.maxhold", "3s").build());
    assert_eq!(
        error.to_string(),
        "set by the program: unknown key `lock.maxhold`; did you mean `lock.max_hold`?"
    );
}

#[test]
fn an_argument_overrides_all_sources_and_is_named_in_errors() {
    let builder =
        || Config::builder().variables([("LEASEHOLD_URL", "memory://"), ("LEASEHOLD_LOCK__LEASE", "5m")]);
    let config = builder().argument("--lease", "lock.watchdog", Duration::from_secs(40)).build().unwrap();
    let printed = config.to_string();
    assert!(printed.contains("[lock]\nwatchdog = \"40s\" # --lease\n"), "{printed}");
    assert!(!printed.contains("5m"), "the argument sets the fixed lease aside: {printed}");
    let error = refused(builder().argument("--max-hold", "lock.max_hold", "10s").build());
    assert!(error.to_string().contains("`lock.max_hold` = \"10s\" (--max-hold)"), "{error}");
}

#[test]
fn variables_set_for_the_wrapped_program_configure_nothing() {
    let set = [("LEASEHOLD_NAME", "a"), ("LEASEHOLD_OWNER", "b:1"), ("LEASEHOLD_TOKEN", "7")];
    assert!(Config::builder().url("memory://").variables(set).build().is_ok());
}

#[test]
fn variables_of_a_kubernetes_service_configure_nothing() {
    for service in ["LEASEHOLD", "LEASEHOLD_REDIS", "LEASEHOLD_REDIS_MASTER", "LEASEHOLD_2"] {
        let set = [
            ("SERVICE_HOST", "10.96.0.7"),
            ("SERVICE_PORT", "6379"),
            ("SERVICE_PORT_TCP_REDIS", "6379"),
            ("PORT", "tcp://10.96.0.7:6379"),
            ("PORT_6379_TCP", "tcp://10.96.0.7:6379"),
            ("PORT_6379_TCP_ADDR", "10.96.0.7"),
            ("PORT_6379_TCP_PORT", "6379"),
            ("PORT_6379_TCP_PROTO", "tcp"),
            ("PORT_53_UDP", "udp://10.96.0.7:53"),
        ];
        let set = set.map(|(name, value)| (format!("{service}_{name}"), value));
        let config = Config::builder().url("memory://").variables(set.clone()).build().unwrap();
        let names: Vec<String> = set.map(|(name, _)| name).into();
        assert_eq!(config.ignored_variables(), names);
    }
    // A key that is misspelled is still an error.
    for (name, value) in [
        ("LEASEHOLD_PORT", "6379"),
        ("LEASEHOLD_PORT_TCP", "tcp://a:1"),
        ("LEASEHOLD_PORT_X_TCP", "tcp://a:1"),
        ("LEASEHOLD_REDISPORT", "tcp://a:1"),
        ("LEASEHOLD_SERVICE", "a"),
        ("LEASEHOLD_STANDALONE__PORT", "tcp://a:1"),
    ] {
        let error = refused(Config::builder().url("memory://").variables([(name, value)]).build());
        assert!(matches!(error, ConfigError::UnknownKey { .. }), "{name}: {error}");
    }
}

#[test]
fn a_variable_has_the_usual_truths_and_its_errors_speak_of_no_quotes() {
    let with = |name: &'static str, value: &'static str| {
        Config::builder().variables([("LEASEHOLD_URL", "memory://"), (name, value)]).build()
    };
    for (word, is_true) in [
        ("true", true),
        ("True", true),
        ("TRUE", true),
        ("1", true),
        ("yes", true),
        ("on", true),
        (" yes ", true),
        ("false", false),
        ("False", false),
        ("0", false),
        ("No", false),
        ("off", false),
    ] {
        let config = with("LEASEHOLD_LAZY", word).unwrap();
        assert_eq!(printed_line(&config, "lazy"), format!("lazy = {is_true} # LEASEHOLD_LAZY"), "{word}");
    }
    let off = [("LEASEHOLD_STANDALONE__ADDRESS", "a"), ("LEASEHOLD_STANDALONE__TLS__ENABLED", "0")];
    let config = Config::builder().variables(off).build().unwrap().to_string();
    assert!(!config.contains("tls"), "{config}");
    for (name, value, expected) in [
        ("LEASEHOLD_TIMEOUT", "5", "`timeout` must be a duration, such as 30s, 5m or 1h30m, without quotes"),
        (
            "LEASEHOLD_TIMEOUT",
            "\"5s\"",
            "`timeout` must be a duration, such as 30s, 5m or 1h30m, without quotes",
        ),
        ("LEASEHOLD_LAZY", "maybe", "`lazy` must be true or false"),
        ("LEASEHOLD_LOCK__MAX_RENEWALS", "x", "`lock.max_renewals` must be a whole number, such as 3"),
        ("LEASEHOLD_SHARDED_PUBSUB", "x", "`sharded_pubsub` must be one of auto, on, off, without quotes"),
        (
            "LEASEHOLD_REPLICAS",
            "x",
            "`replicas` must be a number of replicas from 1, such as 2, or all, majority or none, without quotes",
        ),
    ] {
        assert_eq!(refused(with(name, value)).to_string(), format!("{name}: {expected}"));
    }
    // A file has types of its own.
    assert!(super::toml("url = 'memory://'\nlazy = 'True'").is_err());
}
