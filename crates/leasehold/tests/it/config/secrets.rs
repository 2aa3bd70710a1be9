//! Secrecy. No configuration, error or builder prints a secret.

use leasehold::config::Config;

use super::{Folder, read, toml};

/// A password that must appear nowhere.
const CANARY: &str = "hunter2canary";

#[test]
fn a_configuration_shows_no_secret() {
    let folder = Folder::new();
    let file = folder.file("password", &format!("{CANARY}\n"));
    for text in [
        format!("url = 'redis://app:{CANARY}@h'"),
        format!("url = 'unix:///s?user=app&pass={CANARY}'"),
        format!("[standalone]\naddress = 'h'\npassword = '{CANARY}'"),
        format!("[standalone]\naddress = '/s'\npassword = '{CANARY}'"),
        format!("[standalone]\naddress = 'h'\npassword_file = '{}'", file.display()),
        format!("[quorum]\naddresses = ['h']\npassword = '{CANARY}'"),
        format!("[quorum]\nurls = ['redis://:{CANARY}@a', 'redis://:{CANARY}@b']"),
    ] {
        let config = toml(&text).unwrap();
        let told = format!("{config} {config:?} {config:#?}");
        assert!(!told.contains(CANARY), "{told}");
        assert!(
            told.contains("***") || told.contains("password_file"),
            "what is there is seen to be there: {told}"
        );
        // The printed configuration parses again, and lacks only the secret.
        assert!(toml(&config.to_string()).is_ok(), "{config}");
    }
}

#[test]
fn no_error_shows_a_possible_secret() {
    let bare = format!("redis://{CANARY}@h");
    for (name, text) in [
        ("a.toml", format!("password = '{CANARY}")),
        ("a.toml", format!("[standalone]\npassword = {CANARY}")),
        ("a.toml", format!("[standalone]\naddress = 'h'\npassword = ['{CANARY}']")),
        ("a.toml", format!("[standalone]\naddress = '{CANARY}@h'\npassword = 'p'")),
        ("a.toml", format!("url = 'redis://:{CANARY}@h:99999'")),
        ("a.toml", format!("url = 'http://:{CANARY}@h'")),
        ("a.toml", format!("url = 'rediss://:{CANARY}@h:99999'")),
        ("a.toml", format!("url = 'redis+sentinel://u:{CANARY}@a,b/m?sentinel-password={CANARY}'")),
        (
            "a.toml",
            format!(
                "[sentinel]\naddresses = ['h']\nmaster = 'm'\npassword = '{CANARY}'\nsentinel_password = '{CANARY}'\npassword_file = '/x'"
            ),
        ),
        ("a.toml", format!("[cluster]\naddresses = ['{CANARY}@h']\npassword = '{CANARY}'")),
        ("a.toml", format!("url = '{bare}'")),
        ("a.toml", format!("url = ':{CANARY}@h'")),
        ("a.toml", format!("url = 'redis://:{CANARY}@h'\n[standalone]\naddress = 'h'")),
        ("a.toml", format!("[standalone]\naddress = 'h'\npassword = '{CANARY}'\npassword_file = '/x'")),
        ("a.toml", format!("[quorum]\nurls = ['redis://:{CANARY}@h', 'redis://:{CANARY}@h']")),
        ("a.toml", format!("[quorum]\nurls = ['redis://:{CANARY}@h']\nuser = 'u'\npassword = '{CANARY}'")),
        ("a.toml", format!("timeout = '{CANARY}'")),
        ("a.toml", format!("sharded_pubsub = '{CANARY}'")),
        ("a.toml", format!("client_name = 'a {CANARY}'")),
        ("a.yaml", format!("standalone: {{password: \"{CANARY}}}")),
        ("a.yaml", format!("standalone: {CANARY}")),
        ("a.json", format!("{{\"standalone\": {{\"password\": \"{CANARY}}}")),
        ("a.json", format!("{{\"standalone\": {{\"password\": {CANARY}}}}}")),
    ] {
        let error = super::refused(read(name, &text));
        let told = format!("{error} {error:?} {error:#?}");
        assert!(!told.contains(CANARY), "{text}: {told}");
    }
}

#[test]
fn a_builder_shows_no_secret() {
    let builder = Config::builder()
        .url(&format!("redis://:{CANARY}@h"))
        .set("standalone.password", CANARY)
        .variables([("LEASEHOLD_STANDALONE__PASSWORD", CANARY)]);
    let value = leasehold::config::ConfigValue::from(CANARY);
    assert!(!format!("{builder:?} {value:?}").contains(CANARY), "{builder:?}");
}
