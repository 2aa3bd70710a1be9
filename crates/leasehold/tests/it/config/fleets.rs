//! Fleets, encryption and replicas in a configuration.

use std::fs;

use leasehold::config::{Config, ConfigError};
use leasehold_testkit::fleets::{Cluster, Sentinels};
use leasehold_testkit::servers::RedisServer;

use super::{Folder, refused, toml};

/// Configurations that are refused, each with the part that the error names.
const REFUSED: [(&str, &str); 23] = [
    ("[sentinel]\nmaster = 'm'", "`sentinel.addresses` is missing"),
    ("[sentinel]\nmaster = 'm'\naddresses = []", "`sentinel.addresses` is missing"),
    ("[sentinel]\naddresses = ['a']", "`sentinel.master` is missing"),
    ("[sentinel]\nmaster = 'm'\naddresses = ['a', '/s']", "`sentinel.addresses` must be a list of addresses"),
    ("[sentinel]\nmaster = 'm'\naddresses = ['a:port']", "`sentinel.addresses` cannot be used"),
    (
        "[sentinel]\nmaster = 'm'\naddresses = ['a']\nsentinel_user = 'u'",
        "`sentinel.sentinel_password` is missing",
    ),
    (
        "[sentinel]\nmaster = 'm'\naddresses = ['a']\nsentinel_password = ''",
        "`sentinel.sentinel_password` must be a password",
    ),
    (
        "[sentinel]\nmaster = 'm'\naddresses = ['a']\nsentinel_password_file = '/nowhere/word'",
        "`sentinel.sentinel_password_file`",
    ),
    (
        "[sentinel]\nmaster = 'm'\naddresses = ['a']\nsentinel_tls.key_file = '/k'",
        "`sentinel.sentinel_tls.certificate_file` is missing",
    ),
    ("[sentinel]\nmaster = 'm'\naddresses = ['a']\nsentinel_tsl.ca_file = '/k'", "`sentinel.sentinel_tsl"),
    ("[sentinel]\nmaster = 'm'\naddresses = ['a']\nuser = 'u'", "`sentinel.password` is missing"),
    ("[sentinel]\nof_a_later_version = 3", "unknown key `sentinel.of_a_later_version`"),
    ("sentinel = 'a'", "`sentinel` must be a section"),
    ("[cluster]\nuser = 'u'\npassword = 'p'", "`cluster.addresses` is missing"),
    ("[cluster]\naddresses = ['a']\ndatabase = 3", "unknown key `cluster.database`"),
    ("[cluster]\naddresses = 'a'", "`cluster.addresses` must be a list of texts"),
    ("url = 'memory://'\nreplicas = 0", "`replicas` must be a number of replicas from 1"),
    ("url = 'memory://'\nreplicas = 'most'", "`replicas` must be a number of replicas from 1"),
    ("url = 'memory://'\nreplicas = 'majority'", "`replicas_total` is missing"),
    ("url = 'memory://'\nreplicas_within = '10ms'", "`replicas` is missing"),
    ("url = 'memory://'\nreplicas_total = 2", "`replicas` is missing"),
    ("url = 'memory://'\non_missing = 'warn'", "`replicas` is missing"),
    ("url = 'memory://'\nlock.replicas = 'majority'", "`replicas_total` is missing"),
];

#[test]
fn a_fleet_that_cannot_be_found_is_refused_by_its_key() {
    for (text, says) in REFUSED {
        let told = refused(toml(text)).to_string();
        assert!(told.contains(says), "{text}: {told}");
    }
}

#[test]
fn replicas_are_a_number_or_a_word() {
    for (replicas, more) in [("2", ""), ("'all'", ""), ("'none'", ""), ("'majority'", "\nreplicas_total = 2")]
    {
        let config = toml(&format!("url = 'memory://'\nreplicas = {replicas}{more}")).unwrap().to_string();
        assert!(config.contains(&format!("replicas = {}", replicas.replace('\'', "\""))), "{config}");
    }
    let variables = [("LEASEHOLD_URL", "memory://"), ("LEASEHOLD_REPLICAS", "2")];
    let config = Config::builder().variables(variables).build().unwrap().to_string();
    assert!(config.contains("replicas = 2 # LEASEHOLD_REPLICAS"), "{config}");
}

#[test]
fn encryption_that_is_switched_off_is_not_there() {
    let folder = Folder::new();
    let file = folder.file("app.toml", "[standalone]\naddress = 'a'\n[standalone.tls]\nca_file = 'ca.pem'");
    let variables = [("LEASEHOLD_STANDALONE__TLS__ENABLED", "false")];
    let config = Config::builder().file(file).variables(variables).build().unwrap().to_string();
    assert!(!config.contains("tls"), "{config}");
    let off = "[standalone]\naddress = '/s'\n[standalone.tls]\nenabled = false\nca_file = 'ca.pem'";
    assert!(toml(off).is_ok());
}

#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
#[test]
fn the_last_source_decides_whether_sentinels_are_encrypted() {
    let folder = Folder::new();
    let of = |tls: &str, variable: (&str, &str)| {
        let text = format!("[sentinel]\naddresses = ['a']\nmaster = 'm'\nsentinel_tls.{tls}");
        let builder = Config::builder().file(folder.file("app.toml", &text));
        format!("{:?}", builder.variables([variable]).build().unwrap().sentinel_tls())
    };
    let file = of("enabled = false", ("LEASEHOLD_SENTINEL__SENTINEL_TLS__CA_FILE", "/ca.pem"));
    assert!(file.contains("Own") && file.contains("/ca.pem"), "{file}");
    let off = of("ca_file = '/ca.pem'", ("LEASEHOLD_SENTINEL__SENTINEL_TLS__ENABLED", "false"));
    assert_eq!(off, "PlainText");
    let same = of("enabled = false", ("LEASEHOLD_TIMEOUT", "2s"));
    assert_eq!(same, "PlainText");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_section_connects_to_its_fleet() {
    let (sentinels, cluster) = (Sentinels::start(), Cluster::start(3, 0));
    for (section, url) in [("sentinel", sentinels.url()), ("cluster", cluster.url())] {
        let rest = url.split_once("://").unwrap().1;
        let (hosts, master) = rest.split_once('/').unwrap_or((rest, ""));
        let hosts: Vec<&str> = hosts.split(',').collect();
        let builder = Config::builder()
            .set(&format!("{section}.addresses"), hosts.into_iter().map(String::from).collect::<Vec<_>>());
        let builder = match section {
            "sentinel" => builder.set("sentinel.master", master).set("replicas", 2),
            _ => builder,
        };
        let client = builder.build().unwrap().connect().await.unwrap();
        client.lock("job").lock().await.unwrap().release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_connection_reads_the_password_file_again() {
    let server = RedisServer::start();
    let folder = Folder::new();
    let file = folder.file("password", "one\n");
    let rule = ["ACL", "SETUSER", "app", "on", "~*", "&*", "+@all", ">one", ">two"];
    assert_eq!(server.cli(&rule), "OK");
    let address = server.url().replace("redis://", "");
    let builder = Config::builder().set("standalone.address", address.trim_end_matches('/'));
    let builder =
        builder.set("standalone.user", "app").set("standalone.password_file", file.to_str().unwrap());
    let config = builder.build().unwrap();
    assert!(!format!("{config:?}").contains("one\n"));
    config.connect().await.unwrap();
    fs::write(&file, "two").unwrap();
    assert_eq!(server.cli(&["ACL", "SETUSER", "app", "<one"]), "OK");
    config.connect().await.unwrap();
}

#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
#[tokio::test(flavor = "multi_thread")]
async fn sentinels_have_a_login_and_an_encryption_of_their_own() {
    use leasehold_testkit::certificates::Authority;
    use leasehold_testkit::fleets::SentinelOptions;
    use leasehold_testkit::servers::Encryption;

    let authority = Authority::new();
    let fleet = Sentinels::with(SentinelOptions {
        replicas: 1,
        sentinels: 1,
        sentinel_password: Some("eye".to_owned()),
        encryption: Some(Encryption::new(&authority, &authority.node(&["127.0.0.1"]))),
        ..SentinelOptions::default()
    });
    let folder = Folder::new();
    let password = folder.file("password", "eye\n");
    let sentinel = &fleet.sentinels()[0];
    for (port, tls) in [
        (sentinel.port(), "enabled = false".to_owned()),
        (sentinel.announced_port(), format!("ca_file = '{}'", authority.file())),
    ] {
        let text = format!(
            "[sentinel]\naddresses = ['127.0.0.1:{port}']\nmaster = '{}'\nsentinel_password_file = '{}'\n\
             tls.ca_file = '{}'\nsentinel_tls.{tls}",
            fleet.service(),
            password.display(),
            authority.file()
        );
        let config = Config::builder().file(folder.file("app.toml", &text)).build().unwrap();
        assert!(!config.to_string().contains("eye"), "{config}");
        let client = config.connect().await.unwrap();
        client.lock("job").lock().await.unwrap().release().await.unwrap();
    }
}

#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
#[tokio::test(flavor = "multi_thread")]
async fn a_section_encrypts_its_connections() {
    use leasehold_testkit::certificates::Authority;
    use leasehold_testkit::servers::TlsServer;

    let authority = Authority::new();
    let server = TlsServer::start(&authority, &authority.server(&["orders.invalid"]), true);
    let one = authority.client();
    let files = [
        ("ca_file", authority.file()),
        ("certificate_file", one.certificate_file()),
        ("key_file", one.key_file()),
    ];
    let address = format!("127.0.0.1:{}", server.tls_port());
    let section = |builder, files: &[(&str, &str)]| {
        files.iter().fold(builder, |builder: leasehold::config::ConfigBuilder, (key, value)| {
            builder.set(&format!("standalone.tls.{key}"), *value)
        })
    };
    let builder = || Config::builder().set("standalone.address", address.as_str());
    let url = Config::builder().url(&format!("rediss://{address}")).set("tls.server_name", "orders.invalid");
    let url = files.iter().fold(url, |url, (key, value)| url.set(&format!("tls.{key}"), *value));
    url.build().unwrap().connect().await.unwrap();
    let named = builder().set("standalone.tls.server_name", "orders.invalid");
    let client = section(named, &files).build().unwrap().connect().await.unwrap();
    drop(client.lock("job").lock().await.unwrap());
    // Without the name, or without the client's certificate, there is no connection.
    assert!(section(builder(), &files).build().unwrap().connect().await.is_err());
    let named = builder().set("standalone.tls.server_name", "orders.invalid");
    let client = section(named, &files[..1]).build().unwrap().connect().await;
    assert!(client.is_err());
    for missing in [1, 2] {
        let error = section(builder(), &files[missing..=missing]).build().unwrap_err();
        assert!(matches!(error, ConfigError::Missing { .. }), "{error}");
    }
    let socket = Config::builder().set("standalone.address", "/s").set("standalone.tls.enabled", true);
    assert!(socket.build().unwrap_err().to_string().contains("a socket is not encrypted"));
    let urls =
        Config::builder().set("quorum.urls", ["rediss://a", "rediss://b"]).set("quorum.tls.enabled", true);
    assert!(urls.build().unwrap_err().to_string().contains("quorum.tls.enabled"));
    let with_ca =
        |urls| Config::builder().set("quorum.urls", urls).set("quorum.tls.ca_file", "ca.pem").build();
    assert!(refused(with_ca(["redis://a", "redis://b"])).to_string().contains("no URL is encrypted"));
    assert!(with_ca(["redis://a", "rediss://b"]).is_ok());
    let with_url = |url: &str| Config::builder().url(url).set("tls.ca_file", "ca.pem");
    assert_eq!(with_url("rediss://a").build().unwrap().tls_section(), "tls");
    assert!(refused(with_url("redis://a").build()).to_string().contains("no URL is encrypted"));
    let enabled = with_url("rediss://a").set("tls.enabled", true);
    assert!(refused(enabled.build()).to_string().contains("the URL decides this by its scheme"));
    let apart = Config::builder().set("cluster.addresses", ["a"]).set("tls.ca_file", "ca.pem");
    assert!(refused(apart.build()).to_string().contains("only applies to `url`"));
    let variables = [("LEASEHOLD_CLUSTER__ADDRESSES", "a")];
    let file = Folder::new();
    let file = file.file("a.toml", "url = 'rediss://a'\ntls.ca_file = 'ca.pem'");
    let replaced = Config::builder().file(file).variables(variables).build().unwrap();
    assert_eq!((replaced.tls_section(), replaced.to_string().contains("ca.pem")), ("cluster.tls", false));
}

#[cfg(not(any(feature = "tls-ring", feature = "tls-aws-lc")))]
#[test]
fn a_build_without_tls_says_that_it_lacks_tls() {
    let error = refused(toml("[standalone]\naddress = 'a'\n[standalone.tls]\nca_file = 'ca.pem'"));
    assert!(
        matches!(error, ConfigError::NotSupported { .. })
            && error.to_string().contains("`standalone.tls.ca_file` needs TLS")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primitive_has_its_own_replicas_and_missing_ones_may_be_done_without() {
    let server = RedisServer::start();
    let text = "replicas_within = '50ms'\nlock.replicas = 1\nfair_lock.replicas = 'none'";
    let connect = async |more: &str| {
        let config = toml(&format!("url = '{}'\n{text}\n{more}", server.url())).unwrap();
        config.connect().await.unwrap()
    };
    let client = connect("on_missing = 'fail'").await;
    let error = client.lock("one").try_lock().await.unwrap_err();
    assert!(error.to_string().contains("replicas"), "{error}");
    drop(client.fair_lock("none").try_lock().await.unwrap().expect("it needs no replica"));
    drop(client.spin_lock("client").try_lock().await.unwrap().expect("the client has no policy"));
    let client = connect("on_missing = 'warn'").await;
    drop(client.lock("other").try_lock().await.unwrap().expect("it does without"));
    let on_disk = toml(&format!("url = '{}'\nfsync = true", server.url())).unwrap();
    let error = on_disk.connect().await.unwrap_err();
    assert!(error.to_string().contains("WAITAOF") || format!("{error:?}").contains("WAITAOF"), "{error:?}");
}
