//! The command and services that read the same configuration agree on keys and terms. The command refuses settings that
//! it cannot honor.

use leasehold::config::Config;
use leasehold_testkit::fleets::Sentinels;
use leasehold_testkit::servers::RedisServer;

use crate::fixture::{Folder, NAME, Running, is_locked, leasehold, outcome, run, run_script};

/// Runs work with a client in this process.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Returns the milliseconds that the key has left on the server.
fn left(server: &RedisServer, key: &str) -> i64 {
    server.cli(&["PTTL", key]).parse().unwrap()
}

const HOUR: i64 = 3_600_000;

#[test]
fn a_service_and_a_command_with_equal_variables_exclude_each_other() {
    let server = RedisServer::start();
    let url = server.url();
    let variables = [("LEASEHOLD_URL", url.as_str()), ("LEASEHOLD_KEY_PREFIX", "shop:")];
    block_on(async {
        let client = Config::builder().variables(variables).build().unwrap().connect().await.unwrap();
        let guard = client.lock(NAME).lock().await.unwrap();
        let command = || outcome(leasehold().envs(variables).args(["run", "-n", NAME, "--", "true"]));
        assert_eq!(command().code(), 1, "the service holds the lock");
        guard.release().await.unwrap();
        assert_eq!(command().code(), 0);
        let folder = Folder::new();
        let script = format!("echo begun; {}", folder.wait_for("go"));
        let running =
            Running::start(leasehold().envs(variables).args(["run", NAME, "--", "sh", "-c", &script]));
        running.wait_for_output("begun");
        assert!(client.lock(NAME).try_lock().await.unwrap().is_none(), "the command holds the lock");
        assert_eq!(server.cli(&["KEYS", "*lock*"]), format!("shop:{NAME}"));
        folder.touch("go");
        assert_eq!(running.outcome().code(), 0);
        client.close().await;
    });
}

#[test]
fn options_override_variables_which_override_files_in_order() {
    let server = RedisServer::start();
    let folder = Folder::new();
    std::fs::write(folder.path("a.toml"), "url = 'redis://127.0.0.1:1'\nkey_prefix = 'a:'\nwatchdog = '2h'")
        .unwrap();
    std::fs::write(folder.path("b.yaml"), "key_prefix: 'b:'\nwatchdog: 4h").unwrap();
    let (a, b) = (folder.at("a.toml"), folder.at("b.yaml"));
    let script = format!("echo begun; {}", folder.wait_for("go"));
    let begun = |options: &[&str], variables: &[(&str, &str)]| {
        let mut program = run_script(&server, options, &script);
        let running = Running::start(program.envs(variables.iter().copied()));
        running.wait_for_output("begun");
        running
    };
    let of_files = begun(&["--config", &a, "--config", &b], &[]);
    assert!((3 * HOUR..=4 * HOUR).contains(&left(&server, &format!("b:{NAME}"))), "the later file");
    let of_variables =
        begun(&["--config", &a], &[("LEASEHOLD_KEY_PREFIX", "v:"), ("LEASEHOLD_LOCK__WATCHDOG", "6h")]);
    assert!((5 * HOUR..=6 * HOUR).contains(&left(&server, &format!("v:{NAME}"))), "the variable");
    let of_options = begun(&["--config", &a, "--lease", "8h"], &[("LEASEHOLD_LOCK__WATCHDOG", "6h")]);
    assert!((7 * HOUR..=8 * HOUR).contains(&left(&server, &format!("a:{NAME}"))), "the option");
    folder.touch("go");
    for running in [of_files, of_variables, of_options] {
        assert_eq!(running.outcome().code(), 0);
    }
}

#[test]
fn each_kind_uses_the_settings_of_its_section() {
    let server = RedisServer::start();
    for (options, section) in [
        (&[][..], "LOCK"),
        (&["--fair"], "FAIR_LOCK"),
        (&["--fenced"], "FENCED_LOCK"),
        (&["-s"], "RW_LOCK"),
        (&["-x"], "RW_LOCK"),
    ] {
        let mut program = run(&server, options, &["true"]);
        program.env(format!("LEASEHOLD_{section}__MIN_HOLD"), "2h");
        assert_eq!(outcome(&mut program).code(), 0, "{options:?}");
        assert!((HOUR..=2 * HOUR).contains(&left(&server, NAME)), "{options:?} has the terms of {section}");
        assert_eq!(server.cli(&["FLUSHALL"]), "OK");
        let mut program = run(&server, options, &["true"]);
        program.env("LEASEHOLD_SPIN_LOCK__MIN_HOLD", "2h");
        assert_eq!(outcome(&mut program).code(), 0, "{options:?}");
        assert!(!is_locked(&server), "{options:?} has not those of another kind");
    }
    let mut program = run(&server, &["--slots", "1"], &["true"]);
    program.env("LEASEHOLD_EXPIRABLE_SEMAPHORE__MIN_HOLD", "2h");
    assert_eq!(outcome(&mut program).code(), 0);
    assert_eq!(outcome(&mut run(&server, &["--slots", "1", "-n"], &["true"])).code(), 1);
}

#[test]
fn a_configured_max_hold_ends_the_command() {
    let server = RedisServer::start();
    let mut program = run_script(&server, &[], "while :; do sleep 0.01; done");
    let ended = outcome(program.env("LEASEHOLD_LOCK__MAX_HOLD", "2s"));
    assert_eq!(ended.code(), 79, "{ended:?}");
}

#[test]
fn a_fleet_of_the_configuration_serves_the_command() {
    let fleet = Sentinels::start();
    let url = fleet.url();
    let (addresses, master) =
        url.split_once("://").and_then(|(_, rest)| rest.split_once('/')).expect("sentinels and a service");
    let folder = Folder::new();
    let text = format!("[sentinel]\nmaster = '{master}'\naddresses = ['{}']", addresses.replace(',', "', '"));
    std::fs::write(folder.path("app.toml"), text).unwrap();
    let mut program = leasehold();
    program.args(["run", "--config", &folder.at("app.toml"), NAME, "--", "touch", &folder.at("ran")]);
    let ended = outcome(program.env("LEASEHOLD_REPLICAS", "1"));
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert!(folder.path("ran").exists());
}

#[test]
fn a_setting_that_the_command_cannot_honor_is_64_and_runs_nothing() {
    let server = RedisServer::start();
    let folder = Folder::new();
    let file = folder.path("app.toml");
    let quorum = "[quorum]\nurls = ['redis://a', 'redis://b', 'redis://c']";
    for (text, says) in [
        (quorum, "the configuration describes a quorum"),
        ("url = 'MEMORY://jobs'", "memory:// excludes no other process"),
        ("[sentinel]\nmaster = 'm'", "`sentinel.addresses` is missing"),
        ("[cluster]\nuser = 'u'\npassword = 'p'", "`cluster.addresses` is missing"),
        ("url = 'redis://a'\nreplicas = 'most'", "`replicas` must be a number of replicas from 1"),
        ("timout = '3s'", "app.toml: unknown key `timout`"),
    ] {
        std::fs::write(&file, text).unwrap();
        let mut program = leasehold();
        program.args(["run", "--config", &folder.at("app.toml"), NAME, "--", "touch", &folder.at("ran")]);
        let ended = outcome(&mut program);
        assert_eq!((ended.code(), ended.err.lines().count()), (64, 1), "{text}: {ended:?}");
        assert!(ended.err.starts_with("leasehold: ") && ended.err.contains(says), "{text}: {ended:?}");
    }
    for (options, variable, says) in [
        (&[][..], ("LEASEHOLD_TIMOUT", "3s"), "LEASEHOLD_TIMOUT: unknown key `timout`"),
        (&[], ("LEASEHOLD_URL", "memory://"), "memory:// excludes no other process"),
        (&[], ("LEASEHOLD_URL", ""), "LEASEHOLD_URL: `url` cannot be used"),
        (&["--lease", "1s"], ("LEASEHOLD_TIMEOUT", "3s"), "`lock.watchdog` = \"1s\" (--lease) and `timeout`"),
        (
            &["--fair", "--min-hold", "2m"],
            ("LEASEHOLD_FAIR_LOCK__MAX_HOLD", "1m"),
            "`fair_lock.min_hold` = \"2m\" (--min-hold) and `fair_lock.max_hold`",
        ),
    ] {
        let mut program = run(&server, options, &["touch", &folder.at("ran")]);
        let ended = outcome(program.env(variable.0, variable.1));
        assert_eq!((ended.code(), ended.err.lines().count()), (64, 1), "{variable:?}: {ended:?}");
        assert!(ended.err.contains(says), "{variable:?}: {ended:?}");
    }
    assert!(!folder.has("ran"));
}

#[test]
fn a_password_from_a_file_logs_in_and_is_never_printed() {
    let server = RedisServer::with(&["--requirepass", "canary-7c1e"]);
    let folder = Folder::new();
    let text = format!("[standalone]\naddress = '127.0.0.1:{}'\npassword = 'canary-7c1e'", server.port());
    std::fs::write(folder.path("app.toml"), text).unwrap();
    let options = ["run", "-v", "--config", &folder.at("app.toml"), NAME, "--"];
    let ended = outcome(leasehold().args(options).args(["sh", "-c", "env; cat /proc/$PPID/cmdline"]));
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert!(!format!("{ended:?}").contains("canary"), "{ended:?}");
}

#[test]
fn the_default_server_is_local() {
    let ended = outcome(leasehold().env("LEASEHOLD_TIMEOUT", "10ms").args([
        "run",
        "-n",
        "--lease",
        "20s",
        "no:such:lock",
        "--",
        "true",
    ]));
    // The test cannot control the default address of the machine, where a server may listen.
    let elsewhere = ended.code() == 69 && ended.err.contains("redis://127.0.0.1:6379");
    assert!(ended.code() == 0 || elsewhere, "{ended:?}");
}
