//! Tests of `leasehold config check` from outside: its output, its errors, and that it reveals no secret.

use std::process::{Command, Output};

use tempfile::TempDir;

/// A password that must appear in no output.
const CANARY: &str = "canary-7c1e";

/// A folder with files, in which the program runs.
struct Folder(TempDir);

impl Folder {
    fn with(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Self(folder)
    }

    /// Runs `leasehold config check ARGUMENTS`, without the tester's own environment.
    fn check(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Outcome {
        let mut program = Command::new(env!("CARGO_BIN_EXE_leasehold"));
        program.env_clear().envs(variables.iter().copied()).current_dir(self.0.path());
        Outcome::of(&program.args(["config", "check"]).args(arguments).output().unwrap())
    }
}

#[derive(Debug)]
struct Outcome {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Outcome {
    fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Self { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }
}

const FILE: &str = "timeout = '2s'\n[standalone]\naddress = 'redis.example.org'\npassword = 'canary-7c1e'\n";

#[test]
fn a_valid_configuration_is_printed_with_the_source_of_each_value() {
    let folder = Folder::with(&[("app.toml", FILE), ("more.yaml", "poll_interval: 2s")]);
    let variables = [("LEASEHOLD_WATCHDOG", "1h30m"), ("LEASEHOLD_NAME", "x"), ("HOME", "/")];
    let ended = folder.check(&["app.toml", "more.yaml"], &variables);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    for line in [
        "timeout = \"2s\" # app.toml",
        "poll_interval = \"2s\" # more.yaml",
        "watchdog = \"1h30m\" # LEASEHOLD_WATCHDOG",
        "lazy = false # default",
        "[standalone]",
        "password = \"***\" # app.toml",
    ] {
        assert!(ended.out.lines().any(|printed| printed == line), "{line} in {}", ended.out);
    }
    assert!(!ended.out.contains(CANARY), "{ended:?}");
}

#[test]
fn the_printed_configuration_prints_itself_again() {
    let folder = Folder::with(&[("app.toml", FILE)]);
    let printed = folder.check(&["app.toml"], &[]).out;
    std::fs::write(folder.0.path().join("printed.toml"), &printed).unwrap();
    let again = folder.check(&["printed.toml"], &[]);
    assert_eq!(again.code, Some(0), "{again:?}");
    let values = |text: &str| {
        text.lines().map(|line| line.split(" # ").next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(values(&again.out), values(&printed));
}

#[test]
fn the_environment_overrides_files_and_can_be_ignored() {
    let folder = Folder::with(&[("app.toml", FILE)]);
    let url = format!("redis://:{CANARY}@h");
    let variables = [("LEASEHOLD_URL", url.as_str())];
    let ended = folder.check(&["app.toml"], &variables);
    assert!(ended.out.starts_with("url = \"redis://:***@h\" # LEASEHOLD_URL\n"), "{ended:?}");
    assert!(!ended.out.contains("[standalone]") && !ended.out.contains(CANARY), "{ended:?}");
    let ended = folder.check(&["--no-env", "app.toml"], &variables);
    assert!(ended.code == Some(0) && ended.out.contains("[standalone]"), "{ended:?}");
}

#[test]
fn an_invalid_configuration_is_64_and_one_line_with_the_fix() {
    let file = |text: &str| format!("{FILE}{text}");
    for (text, says) in [
        ("[lock]\nmax_hld = '3s'", "app.toml: unknown key `lock.max_hld`; did you mean `lock.max_hold`?"),
        ("[lock]\nlease = 3", "app.toml: `lock.lease` must be a duration in quotes, such as \"30s\""),
        (
            "[lock]\nwatchdog = '1s'",
            "`lock.watchdog` = \"1s\" (app.toml) and `timeout` = \"2s\" (app.toml) conflict: ",
        ),
        ("password = ", "app.toml is not valid TOML: line 5, column "),
    ] {
        let folder = Folder::with(&[("app.toml", &file(text))]);
        let ended = folder.check(&["app.toml"], &[]);
        assert_eq!((ended.code, ended.out.as_str()), (Some(64), ""), "{ended:?}");
        assert!(ended.err.starts_with("leasehold: ") && ended.err.contains(says), "{ended:?}");
        assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
        assert!(!ended.err.contains(CANARY), "{ended:?}");
    }
    let folder = Folder::with(&[("app.toml", FILE), ("app.ini", "")]);
    let cases: [(&[&str], &str); 4] = [
        (&["none.toml"], "none.toml cannot be read: No such file"),
        (&["app.ini"], "app.ini does not end in .toml, .yaml, .yml or .json"),
        (&[], "FILE"),
        (&["--what", "app.toml"], "--what"),
    ];
    for (arguments, says) in cases {
        let ended = folder.check(arguments, &[]);
        assert!(ended.code == Some(64) && ended.err.contains(says), "{arguments:?}: {ended:?}");
    }
    let ended = folder.check(&["app.toml"], &[("LEASEHOLD_TIMOUT", "1s")]);
    let says = "LEASEHOLD_TIMOUT: unknown key `timout`; did you mean `LEASEHOLD_TIMEOUT`?";
    assert!(ended.code == Some(64) && ended.err.contains(says), "{ended:?}");
}

#[test]
fn control_characters_of_a_file_reach_no_terminal() {
    let folder = Folder::with(&[
        ("app.json", r#"{"\u001b[2Jkey": 1}"#),
        ("app.toml", "url = 'redis://h'\n'a\\u001b' = 1"),
    ]);
    for name in ["app.json", "app.toml"] {
        let ended = folder.check(&[name], &[]);
        assert!(ended.code == Some(64) && !ended.err.contains('\u{1b}'), "{ended:?}");
    }
    let folder = Folder::with(&[(
        "app.json",
        r#"{"url": "redis://h", "key_prefix": "", "standalone": {"user": "\u001b"}}"#,
    )]);
    assert!(!format!("{:?}", folder.check(&["app.json"], &[]).err).contains("\\u{1b}[2J"));
}

#[test]
fn all_errors_are_reported_at_once() {
    let folder = Folder::with(&[
        ("app.toml", "timeout = 3\ntimout = '3s'\n[lock]\nlease = '0s'\n"),
        ("more.toml", "x = "),
    ]);
    let ended = folder.check(&["app.toml", "more.toml"], &[("LEASEHOLD_LAZY", "maybe")]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(64), ""), "{ended:?}");
    for says in [
        "app.toml: `timeout` must be",
        "unknown key `timout`",
        "`lock.lease` is 0s",
        "more.toml is not valid",
        "LEASEHOLD_LAZY",
    ] {
        assert_eq!(ended.err.matches(says).count(), 1, "{says}: {}", ended.err);
    }
    assert_eq!(ended.err.lines().count(), 5, "{}", ended.err);
    let text = "url = 'redis://h'\nclient_name = 'a b'\nreplicas = 'majority'\n[lock]\nlease = '5s'\nmax_hold = '5s'\n";
    let folder = Folder::with(&[("app.toml", text)]);
    let ended = folder.check(&["app.toml"], &[]);
    for says in ["client_name", "replicas_total", "max_hold"] {
        assert!(ended.err.contains(says), "{says}: {}", ended.err);
    }
    assert_eq!(ended.err.lines().count(), 3, "{}", ended.err);
}

#[test]
fn variables_of_a_kubernetes_service_are_named_and_ignored() {
    let folder = Folder::with(&[("app.toml", FILE)]);
    let variables =
        [("LEASEHOLD_PORT", "tcp://10.96.0.7:6379"), ("LEASEHOLD_REDIS_SERVICE_HOST", "10.96.0.7")];
    let ended = folder.check(&["app.toml"], &variables);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.err.contains("ignored LEASEHOLD_PORT, LEASEHOLD_REDIS_SERVICE_HOST: Kubernetes"),
        "{ended:?}"
    );
}
