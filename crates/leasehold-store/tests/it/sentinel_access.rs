//! Tests of sentinels whose login and encryption differ from those of the servers.

use std::fs;
use std::time::Duration;

use leasehold_proto::StoreErrorKind;
use leasehold_store::redis::wire::Answer;
use leasehold_store::redis::{ConnectOptions, CredentialsFile, Peer, Redis, SentinelTls, Tls, query};
use leasehold_store::url::{ServerUrl, Servers};
use leasehold_testkit::certificates::Authority;
use leasehold_testkit::contract::reentrant;
use leasehold_testkit::fleets::{SentinelOptions, Sentinels};
use leasehold_testkit::servers::Encryption;

const LIMIT: Duration = Duration::from_secs(20);

/// Starts a fleet whose nodes are encrypted, with one sentinel, which has a password.
fn fleet(nodes: &Authority, sentinel_encryption: Option<Encryption>) -> Sentinels {
    Sentinels::with(SentinelOptions {
        replicas: 1,
        sentinels: 1,
        sentinel_password: Some("eye".to_owned()),
        encryption: Some(Encryption::new(nodes, &nodes.node(&["127.0.0.1"]))),
        sentinel_encryption,
        ..SentinelOptions::default()
    })
}

/// Returns the URL with the sentinel at a port, and without a login of sentinels.
fn url_at(port: u16) -> ServerUrl {
    format!("rediss+sentinel://127.0.0.1:{port}/leasehold").parse().unwrap()
}

/// Connects with the password of the sentinels in a file, which is read again, and passes the contract of the lock.
async fn passes(fleet: &Sentinels, url: &ServerUrl, options: ConnectOptions) {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "eye\n").unwrap();
    let options = options.timeout(LIMIT).sentinel_credentials(CredentialsFile::new(file.path()));
    let store = Redis::connect(url, options.clone()).await.unwrap();
    let master = &fleet.nodes()[fleet.master()];
    for name in reentrant::NAMES {
        println!("{name}");
        reentrant::run(name, &store, master).await;
    }
    let Servers::Sentinel { sentinels, service, .. } = url.servers() else { panic!("{url}") };
    let question: &[&[&str]] = &[&["SENTINEL", "MASTER", service]];
    let answers = query(url, (Peer::Sentinel, &sentinels[0]), question, &options).await.unwrap();
    assert!(matches!(&answers[0], Answer::List(_)), "{answers:?}");
    fs::write(file.path(), "other").unwrap();
    let refused = Redis::connect(url, options).await.map(drop).unwrap_err();
    assert_eq!(refused.kind, StoreErrorKind::AuthenticationFailed);
}

#[tokio::test]
async fn sentinels_in_plain_text_lead_to_encrypted_servers() {
    let authority = Authority::new();
    let fleet = fleet(&authority, None);
    let url = url_at(fleet.sentinels()[0].port());
    let options = ConnectOptions::default().tls(Tls::new().ca_file(authority.file()));
    passes(&fleet, &url, options.clone().sentinel_tls(SentinelTls::PlainText)).await;
    let encrypted = Redis::connect(&url, options.timeout(Duration::from_secs(2))).await.map(drop);
    assert!(encrypted.is_err(), "by default sentinels are encrypted as the servers are");
}

#[tokio::test]
async fn sentinels_have_certificates_of_their_own() {
    let (authority, other) = (Authority::new(), Authority::new());
    let own = Encryption::new(&other, &other.node(&["127.0.0.1"])).trusting(&authority);
    let fleet = fleet(&authority, Some(own));
    let url = url_at(fleet.sentinels()[0].announced_port());
    let options = ConnectOptions::default().tls(Tls::new().ca_file(authority.file()));
    let own = SentinelTls::Own(Tls::new().ca_file(other.file()));
    passes(&fleet, &url, options.clone().sentinel_tls(own)).await;
    let refused = Redis::connect(&url, options.timeout(LIMIT)).await.map(drop).unwrap_err();
    let cause = std::error::Error::source(&refused).unwrap().to_string();
    assert!(cause.contains("issuer is not trusted"), "{cause}");
}
