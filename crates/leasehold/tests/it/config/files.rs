//! Configuration files: three formats with one meaning, and mistakes with their place.

use leasehold::config::{Config, ConfigError, Source};
use proptest::prelude::*;

use super::{Folder, assert_message, read, refused, toml};

const TOML: &str = r#"
timeout = "2s"
lazy = true
key_prefix = "shop:"

[standalone]
address = "redis.example.org:6380"
database = 3
user = "app"
password = "12345"

[fair_lock]
max_hold = "1h30m"
max_renewals = 10

[spin_lock]
backoff_longest = "50ms"
"#;

const YAML: &str = r#"
timeout: 2s
lazy: true
key_prefix: "shop:"
standalone:
  address: redis.example.org:6380
  database: 3
  user: app
  password: "12345"
fair_lock: {max_hold: 90m, max_renewals: 10}
spin_lock:
  backoff_longest: 50ms
"#;

const JSON: &str = r#"{
  "timeout": "2000ms", "lazy": true, "key_prefix": "shop:",
  "standalone": {"address": "redis.example.org:6380", "database": 3, "user": "app", "password": "12345"},
  "fair_lock": {"max_hold": "1h 30m", "max_renewals": 10},
  "spin_lock": {"backoff_longest": "50ms"}
}"#;

#[test]
fn one_configuration_in_three_formats_is_equal() {
    let config = toml(TOML).unwrap();
    assert_eq!(read("app.yaml", YAML).unwrap(), config);
    assert_eq!(read("app.yml", YAML).unwrap(), config);
    assert_eq!(read("app.json", JSON).unwrap(), config);
    assert_ne!(toml(&TOML.replace("90m", "91m").replace("2s", "3s")).unwrap(), config);
    assert_ne!(toml(&TOML.replace("12345", "54321")).unwrap(), config);
}

#[test]
fn the_readme_example_is_a_valid_configuration() {
    let readme = include_str!("../../../../../README.md");
    let (_, section) = readme.split_once("\n## Configuration\n").expect("the README has the section");
    let (_, example) = section.split_once("```toml\n").expect("the section has an example");
    let (example, _) = example.split_once("```").expect("the example ends");
    let config = toml(example).unwrap();
    assert!(config.to_string().contains("[fair_lock]"), "{config}");
}

#[test]
fn an_unknown_key_is_rejected_with_its_name_and_position() {
    for (text, key, expected) in [
        ("url = 'memory://'\ntimout = '3s'", "timout", Some("timeout")),
        ("url = 'memory://'\n[lock]\nmax_hld = '3s'", "lock.max_hld", Some("lock.max_hold")),
        ("url = 'memory://'\n[locks]", "locks", Some("lock")),
        ("url = 'memory://'\n[semaphore]\nlease = '3s'", "semaphore", None),
        ("url = 'memory://'\n'lock.lease' = '3s'", "lock.lease", Some("lock.lease")),
        ("url = 'memory://'\nTimeout = '3s'", "Timeout", Some("timeout")),
        ("url = 'memory://'\n[lock]\nbackoff_first = '1s'", "lock.backoff_first", None),
    ] {
        let folder = Folder::new();
        let path = folder.file("app.toml", text);
        let error = refused(Config::from_file(&path));
        let ConfigError::UnknownKey { set_by, key: found, suggestion, .. } = &error else {
            panic!("{text}: {error}")
        };
        assert_eq!((set_by, found.as_str()), (&Source::File(path), key), "{text}");
        if expected.is_some() {
            assert_eq!(suggestion.as_deref(), expected, "{text}");
        }
        assert!(error.to_string().contains("app.toml") && error.to_string().contains(key), "{error}");
    }
}

#[test]
fn a_value_of_another_type_is_rejected_with_a_suggestion() {
    for (text, key, expected) in [
        ("timeout = 3", "timeout", "\"30s\""),
        ("timeout = '3'", "timeout", "\"30s\""),
        ("timeout = 'soon'", "timeout", "\"30s\""),
        ("lazy = 'yes'", "lazy", "true or false"),
        ("sharded_pubsub = true", "sharded_pubsub", "\"auto\", \"on\", \"off\""),
        ("sharded_pubsub = 'maybe'", "sharded_pubsub", "\"auto\", \"on\", \"off\""),
        ("client_name = 7", "client_name", "text in quotes"),
        ("client_name = 'two words'", "client_name", "without spaces"),
        ("lock = '3s'", "lock", "a section"),
        ("[lock]\nmax_renewals = '3'", "lock.max_renewals", "a whole number"),
        ("[lock]\nmax_renewals = 1.5", "lock.max_renewals", "a whole number"),
        ("[lock]\nlease = { s = 3 }", "lock.lease", "a duration"),
    ] {
        let error = refused(toml(&format!("url = 'memory://'\n{text}")));
        let ConfigError::Value { key: found, .. } = &error else { panic!("{text}: {error:?}") };
        assert_eq!(found, key, "{text}");
        assert!(error.to_string().contains(expected), "{text}: {error}");
        assert!(error.to_string().contains("app.toml"), "{error}");
    }
    let nothing = refused(read("app.yaml", "url: memory://\ntimeout: ~"));
    assert!(matches!(nothing, ConfigError::Value { .. }), "{nothing}");
}

#[test]
fn a_value_outside_its_bounds_is_rejected_with_the_bounds() {
    for (text, key) in [
        ("timeout = '0s'", "timeout"),
        ("watchdog = '2ms'", "watchdog"),
        ("[lock]\nlease = '366d'", "lock.lease"),
        ("[lock]\nmax_renewals = -1", "lock.max_renewals"),
        ("[lock]\nmax_renewals = 4294967296", "lock.max_renewals"),
    ] {
        let error = refused(toml(&format!("url = 'memory://'\n{text}")));
        assert!(matches!(&error, ConfigError::Bounds { given, .. } if given.key == key), "{text}: {error}");
        assert!(error.to_string().contains(" to "), "{error}");
    }
    let set_by_program =
        Config::builder().url("memory://").set("lock.lease", std::time::Duration::from_millis(1));
    assert_message(
        &refused(set_by_program.build()),
        "set by the program: `lock.lease` is 1ms; it must be from 3ms to 365d",
    );
}

#[test]
fn a_file_in_another_format_is_rejected_with_the_position() {
    for (name, text, line) in [
        ("a.toml", "url = 'memory://'\ntimeout = ", 2),
        ("a.yaml", "url: memory://\n  timeout: [", 2),
        ("a.json", "{\n\"url\": memory}", 2),
    ] {
        let error = refused(read(name, text));
        let ConfigError::Syntax { line: Some(found), .. } = &error else { panic!("{name}: {error:?}") };
        assert!(*found >= line, "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
    for (name, text) in
        [("a.yaml", "- a\n- b"), ("a.json", "[]"), ("a.yaml", "--- {}\n--- {}"), ("a.yaml", "? [a]\n: b")]
    {
        assert!(matches!(refused(read(name, text)), ConfigError::Syntax { .. }), "{name}: {text}");
    }
    assert!(matches!(refused(read("app.ini", "")), ConfigError::Format { .. }));
    let gone = refused(Config::from_file("/nowhere/app.toml"));
    assert_message(&gone, "/nowhere/app.toml cannot be read: No such file or directory (os error 2)");
}

/// Settings that do not conflict.
fn settings() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let text = "[ -~äß\"\\\\\u{1b}\n]{0,12}";
    let span = |least: u64, most: u64| (least..most).prop_map(|ms| format!("{ms}ms"));
    let some = |key: &'static str, value: BoxedStrategy<String>| {
        proptest::option::of(value).prop_map(move |value| value.map(|value| (key, value)))
    };
    let (lease, hold) = (span(6_000, 10_000_000), span(5_000, 31_000_000_000));
    (
        some(
            "key_prefix",
            "[ -z~äß\"\\\\]{0,12}".prop_filter("a prefix", |text| !text.contains("redisson")).boxed(),
        ),
        some("client_name", "[!-~]{1,20}".boxed()),
        some("timeout", span(1, 100_000).boxed()),
        some("watchdog", lease.clone().boxed()),
        some("lock.lease", lease.boxed()),
        some("rw_lock.max_hold", hold.boxed()),
        some("fair_lock.min_hold", span(1, 5_000).boxed()),
        some("spin_lock.backoff_longest", span(1, 100_000).boxed()),
        some("sharded_pubsub", prop_oneof![Just("on".to_owned()), Just("off".to_owned())].boxed()),
        some("standalone.user", text.prop_filter("a user", |text| !text.is_empty()).boxed()),
    )
        .prop_map(|(a, b, c, d, e, f, g, h, i, j)| {
            [a, b, c, d, e, f, g, h, i, j].into_iter().flatten().collect()
        })
}

proptest! {
    #[test]
    fn a_printed_configuration_loads_again(settings in settings()) {
        let mut builder = Config::builder().set("standalone.address", "redis.example.org:6379");
        let folder = Folder::new();
        for (key, value) in &settings {
            builder = builder.set(key, value.as_str());
        }
        if settings.iter().any(|(key, _)| *key == "standalone.user") {
            // The secret stays in a file, and the configuration prints only the path.
            let path = folder.file("pass\"word", "hunter2\n");
            builder = builder.set("standalone.password_file", path.to_str().unwrap());
        }
        let config = builder.build().unwrap();
        let again = toml(&config.to_string());
        prop_assert_eq!(again.unwrap(), config);
    }
}
