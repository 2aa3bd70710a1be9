//! Encrypted connections to a real server.

use std::fs;

use crate::common::{
    LIMIT, PUSH, SET, SOON, assert_failed, call, clients, error_chain, run, run_on_a_new_connection,
};
use leasehold_proto::{Applied, Channel, StoreError, StoreErrorKind as Kind};
use leasehold_store::Store;
use leasehold_store::redis::wire::Answer;
use leasehold_store::redis::{ConnectOptions, Peer, Redis, Tls, TlsProvider, query};
use leasehold_store::url::{Address, ServerUrl, Servers};
use leasehold_testkit::certificates::{Authority, Identity};
use leasehold_testkit::contract::{reentrant, store};
use leasehold_testkit::servers::{RedisServer, TlsServer};
use leasehold_testkit::wait::eventually;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

const NAMES: [&str; 2] = ["localhost", "127.0.0.1"];

fn started() -> (Authority, TlsServer) {
    let authority = Authority::new();
    let server = TlsServer::start(&authority, &authority.server(&NAMES), false);
    (authority, server)
}

async fn connect(url: &str, tls: Tls) -> Result<Redis, StoreError> {
    Redis::connect(&url.parse().unwrap(), ConnectOptions::default().timeout(LIMIT).tls(tls)).await
}

/// Asserts that a connect fails by a certificate, and that the error says so.
async fn assert_refused(server: &TlsServer, tls: Tls, says: &str) {
    let error = connect(&server.tls_url(), tls).await.unwrap_err();
    let told = error_chain(&error);
    assert_eq!((error.kind, error.applied), (Kind::Certificate, Applied::No), "{told}");
    assert!(told.contains(says) && !error.kind.is_transient(), "{told}");
}

fn providers() -> Vec<TlsProvider> {
    vec![
        #[cfg(feature = "tls-ring")]
        TlsProvider::Ring,
        #[cfg(feature = "tls-aws-lc")]
        TlsProvider::AwsLc,
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_provider_runs_calls_and_hears_messages() {
    let (authority, server) = started();
    for provider in providers() {
        let tls = Tls::new().ca_file(authority.file()).provider(provider);
        let redis = connect(&server.tls_url(), tls).await.unwrap();
        run(&redis, call(&SET, "k", "x".repeat(300_000))).await.unwrap();
        let (heard, mut news) = tokio::sync::mpsc::unbounded_channel();
        let _subscription = redis.subscribe(Channel::new("c"), heard);
        news.recv().await.expect("the server confirms");
        assert_eq!(server.cli(&["PUBLISH", "c", "hello"]), "1");
        news.recv().await.expect("the message comes");
    }
}

#[tokio::test]
async fn an_encrypted_server_passes_the_contract_of_stores_and_of_the_lock() {
    let (authority, server) = started();
    let redis = connect(&server.tls_url(), Tls::new().ca_file(authority.file())).await.unwrap();
    let plain: &RedisServer = &server;
    for name in store::NAMES {
        println!("{name}");
        store::run(name, &redis, plain).await;
    }
    for name in reentrant::NAMES {
        println!("{name}");
        reentrant::run(name, &redis, plain).await;
    }
}

#[tokio::test]
async fn a_certificate_that_is_not_valid_is_refused_with_what_to_check() {
    let (authority, server) = started();
    let trusting = || Tls::new().ca_file(authority.file());
    assert_refused(&server, Tls::new().ca_file("/nowhere/ca.pem"), "cannot be used").await;
    let other = Authority::new();
    assert_refused(&server, Tls::new().ca_file(other.file()), "issuer is not trusted").await;
    assert_refused(&server, trusting().server_name("other.example"), "does not contain the host").await;
    assert_refused(&server, Tls::new().ca_pem("nonsense"), "no PEM certificate").await;
    server.show(&authority.expired(&NAMES));
    assert_refused(&server, trusting(), "has expired").await;
    server.show(&authority.server(&["redis.example"]));
    assert_refused(&server, trusting(), "does not contain the host").await;
    connect(&server.tls_url(), trusting().server_name("redis.example")).await.unwrap();
    connect(&server.tls_url(), Tls::new().danger_accept_any_certificate()).await.unwrap();
}

#[tokio::test]
async fn a_certificate_that_signs_itself_is_trusted_if_it_is_named() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = TlsServer::start(&authority, &authority.itself(), false);
    let says = "set `ca_file` to it to trust exactly this one";
    assert_refused(&server, Tls::new().ca_file(other.file()), says).await;
    assert_refused(&server, Tls::new(), says).await;
    for provider in providers() {
        let redis = connect(&server.tls_url(), Tls::new().ca_file(authority.file()).provider(provider)).await;
        run(&redis.unwrap(), call(&SET, "k", 1)).await.unwrap();
    }
    server.show(&other.itself());
    assert_refused(&server, Tls::new().ca_file(authority.file()), says).await;
}

#[tokio::test]
async fn a_client_certificate_is_shown_where_the_server_requires_one() {
    let authority = Authority::new();
    let server = TlsServer::start(&authority, &authority.server(&NAMES), true);
    let trusting = || Tls::new().ca_file(authority.file());
    assert_refused(&server, trusting(), "none was sent").await;
    let stranger = Authority::new().client();
    let with = |one: &Identity| trusting().client_files(one.certificate_file(), one.key_file());
    assert_refused(&server, with(&stranger), "cannot be used").await;
    let (other, one) = (Authority::new(), authority.client());
    assert_refused(&server, with(&other.client()), "client's certificate").await;
    let mixed = trusting().client_files(one.certificate_file(), authority.client().key_file());
    assert_refused(&server, mixed, "does not belong to the certificate").await;
    let redis = connect(&server.tls_url(), with(&one)).await.unwrap();
    run(&redis, call(&SET, "k", 1)).await.unwrap();
}

#[tokio::test]
async fn a_port_that_speaks_the_other_way_is_named() {
    let (authority, server) = started();
    let plain = format!("redis://localhost:{}", server.tls_port());
    let error = connect(&plain, Tls::new()).await.unwrap_err();
    assert!(error_chain(&error).contains("a URL that begins with `rediss`"), "{}", error_chain(&error));
    let address = Address::Tcp { host: "localhost".into(), port: server.tls_port() };
    let options = ConnectOptions::default();
    let url: ServerUrl = plain.parse().unwrap();
    let error = query(&url, (Peer::Server, &address), &[&["PING"]], &options).await.unwrap_err();
    assert!(error_chain(&error).contains("a URL that begins with `rediss`"), "{}", error_chain(&error));
    let encrypted = server.url().replace("redis:", "rediss:");
    let options = ConnectOptions::default().timeout(SOON).tls(Tls::new().ca_file(authority.file()));
    let error = Redis::connect(&encrypted.parse().unwrap(), options).await.unwrap_err();
    assert!(error_chain(&error).contains("speak"), "{}", error_chain(&error));
}

#[tokio::test(flavor = "multi_thread")]
async fn renewed_certificates_need_no_restart() {
    let authority = Authority::new();
    let server = TlsServer::start(&authority, &authority.server(&NAMES), true);
    let folder = authority.folder();
    let (ca, certificate, key) = (folder.join("now-ca.pem"), folder.join("now.pem"), folder.join("now.key"));
    let place = |ca_file: &str, one: &Identity| {
        fs::copy(ca_file, &ca).unwrap();
        fs::copy(one.certificate_file(), &certificate).unwrap();
        fs::copy(one.key_file(), &key).unwrap();
    };
    place(authority.file(), &authority.client());
    let tls = Tls::new().ca_file(&ca).client_files(&certificate, &key);
    let redis = connect(&server.tls_url(), tls).await.unwrap();
    run(&redis, call(&PUSH, "k", 1)).await.unwrap();

    let next = Authority::new();
    server.show(&next.server(&NAMES));
    assert_eq!(server.cli(&["CONFIG", "SET", "tls-ca-cert-file", next.file()]), "OK");
    place(next.file(), &next.client());
    // The connection that is open goes on, and the one that replaces it has the new certificates.
    run(&redis, call(&PUSH, "k", 2)).await.unwrap();
    let _ = server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    run_on_a_new_connection(&redis, call(&PUSH, "k", 3)).await.unwrap();
    assert_eq!(server.cli(&["LLEN", "k"]), "3");

    fs::write(&key, "half").unwrap();
    let _ = server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    assert_failed(run_on_a_new_connection(&redis, call(&PUSH, "k", 4)).await, Kind::Certificate, Applied::No);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_store_closes_its_encrypted_connections() {
    let (authority, server) = started();
    let redis = connect(&server.tls_url(), Tls::new().ca_file(authority.file())).await.unwrap();
    assert_eq!(clients(&server), 1);
    drop(redis);
    eventually(LIMIT, "the connection is closed", || clients(&server) == 0);
}

#[tokio::test]
async fn a_query_is_encrypted_and_trusts_what_the_options_say() {
    let (authority, server) = started();
    let url: ServerUrl = server.tls_url().parse().unwrap();
    let Servers::One(address) = url.servers() else { panic!("{url} has one server") };
    let trusting = ConnectOptions::default().timeout(LIMIT).tls(Tls::new().ca_file(authority.file()));
    let answers = query(&url, (Peer::Server, address), &[&["ECHO", "one"]], &trusting).await.unwrap();
    assert_eq!(answers, [Answer::Text("one".into())]);
    let error = query(&url, (Peer::Server, address), &[&["PING"]], &ConnectOptions::default().timeout(LIMIT))
        .await
        .unwrap_err();
    assert_eq!(error.kind, Kind::Certificate);
}

/// Regression test of a query that dialed `rediss://` in plain text.
#[tokio::test]
async fn a_query_over_tls_sends_no_password_to_a_server_without_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let url: ServerUrl = format!("rediss://:canary-5b1d@localhost:{port}").parse().unwrap();
    let address = Address::Tcp { host: "127.0.0.1".into(), port };
    let received = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut bytes = vec![0; 4096];
        let count = stream.read(&mut bytes).await.unwrap();
        bytes.truncate(count);
        bytes
    };
    let options = ConnectOptions::default().timeout(LIMIT);
    let (bytes, answers) =
        tokio::join!(received, query(&url, (Peer::Server, &address), &[&["PING"]], &options));
    answers.unwrap_err();
    assert_eq!(bytes.first(), Some(&0x16), "a TLS handshake comes first");
    assert!(!bytes.windows(6).any(|part| part == b"canary"));
}
