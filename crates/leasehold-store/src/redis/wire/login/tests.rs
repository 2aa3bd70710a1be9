//! Tests of logins on connections that open, that are open, and that are gone.

use std::io;
use std::time::Duration;

use crate::redis::connect::ConnectOptions;
use crate::redis::wire::harness::{Driver, GREETING, SHORT, set};
use crate::redis::wire::{ConnId, Input};
use crate::url::Credentials;

/// The answers to the first commands with a login, in RESP2 and in RESP3.
const LOGGED_IN: &str = "+OK\r\n+PONG\r\n-ERR unknown command 'HELLO'\r\n:0\r\n:1\r\n";
const LOGGED_IN_3: &str = "+OK\r\n+PONG\r\n%1\r\n$5\r\nproto\r\n:3\r\n:0\r\n:1\r\n";
const LIFE: Duration = Duration::from_secs(1000);

/// Returns credentials that live for [`LIFE`].
fn token(password: &str) -> Credentials {
    Credentials::new("app", password).expires_in(LIFE)
}

fn driver() -> Driver {
    // The wire sees only that there is a provider.
    Driver::at("redis://old:url@nowhere.invalid", ConnectOptions::default().credentials(token("unused")))
}

/// Gives the dialed connection credentials and a stream.
fn accept(driver: &mut Driver, credentials: Credentials, greeting: &str) -> ConnId {
    assert!(driver.wire.wants_login(*driver.dialed.last().unwrap()));
    driver.input(Input::DialLogin(*driver.dialed.last().unwrap(), credentials));
    let id = driver.accept();
    driver.says(id, greeting);
    id
}

/// Returns a driver with an open connection for commands, and one for subscriptions.
fn live(greeting: &str) -> (Driver, ConnId, ConnId) {
    let mut driver = driver();
    driver.input(Input::Open);
    let commands = accept(&mut driver, token("one"), greeting);
    assert_eq!((driver.opened.len(), driver.commands(commands)[0].as_str()), (1, "AUTH app one"));
    driver.subscribe(1, "c");
    // The second connection needs no identification of the server.
    let greeting = if greeting == LOGGED_IN {
        "+OK\r\n+PONG\r\n"
    } else {
        "+OK\r\n+PONG\r\n%1\r\n$5\r\nproto\r\n:3\r\n"
    };
    let session = accept(&mut driver, token("one"), greeting);
    assert_eq!(driver.commands(session).last().unwrap(), "SUBSCRIBE c");
    (driver, commands, session)
}

/// Lets the time of the next request for credentials come.
fn asked(driver: &mut Driver, after: Duration) {
    let before = driver.login_requests;
    let due = driver.now + after;
    while driver.now < due {
        assert_eq!(driver.login_requests, before, "no request before its time");
        let step = Duration::from_secs(4).min(due.since(driver.now));
        driver.pass(step);
        // The pings of the session are answered.
        for id in driver.streams.keys().copied().collect::<Vec<_>>() {
            if driver.commands(id).iter().any(|command| command == "PING") {
                driver.says(id, "+PONG\r\n");
            }
        }
    }
    assert_eq!(driver.login_requests, before + 1);
}

#[test]
fn a_login_of_a_provider_replaces_that_of_the_url_at_each_connect() {
    let mut driver = driver();
    driver.input(Input::Open);
    let id = accept(&mut driver, Credentials::password("first"), LOGGED_IN);
    assert_eq!(driver.commands(id)[0], "AUTH first");
    driver.hang_up(id);
    let call = driver.set(1, Duration::from_secs(1));
    driver.pass(Duration::from_millis(500));
    let id = accept(&mut driver, Credentials::new("app", "second"), "+OK\r\n+PONG\r\n");
    assert_eq!(driver.commands(id), ["AUTH app second", "PING", "EVAL 1 k 1"]);
    driver.says(id, ":1\r\n");
    assert_eq!(driver.outcomes().pop().unwrap().0, call);
    driver.pass(LIFE * 10);
    assert_eq!(driver.login_requests, 0, "these credentials do not expire");
}

#[test]
fn credentials_that_expire_are_replaced_on_open_connections_in_time() {
    let (mut driver, commands, session) = live(LOGGED_IN_3);
    driver.says(session, ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    asked(&mut driver, LIFE * 3 / 4);
    driver.input(Input::Login(Ok(token("two"))));
    for id in [commands, session] {
        assert_eq!(driver.commands(id), ["AUTH app two"]);
        driver.says(id, "+OK\r\n");
    }
    assert!(driver.reset.is_empty() && driver.streams.len() == 2);
    driver.says(session, ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n");
    assert_eq!(driver.heard.len(), 2, "the session goes on");
    asked(&mut driver, LIFE * 3 / 4);
}

#[test]
fn a_session_of_resp2_is_replaced_because_it_takes_no_login() {
    let (mut driver, commands, session) = live(LOGGED_IN);
    driver.says(session, "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    driver.input(Input::Login(Ok(token("two"))));
    assert_eq!(driver.commands(commands), ["AUTH app two"]);
    assert_eq!(driver.reset, [session]);
    driver.pass(SHORT);
    let session = accept(&mut driver, token("two"), "+OK\r\n+PONG\r\n");
    assert_eq!(driver.commands(session), ["AUTH app two", "PING", "SUBSCRIBE c"]);
}

#[test]
fn a_connection_that_opens_with_an_earlier_login_gets_the_later_one() {
    let mut driver = driver();
    driver.input(Input::Open);
    driver.input(Input::Login(Ok(token("one"))));
    let id = driver.accept();
    driver.input(Input::Login(Ok(token("two"))));
    driver.says(id, LOGGED_IN);
    assert_eq!(driver.commands(id).last().unwrap(), "AUTH app two");
    driver.says(id, "+OK\r\n");
    driver.input(Input::Login(Ok(token("two"))));
    assert!(driver.commands(id).is_empty(), "the same credentials are not sent again");
}

#[test]
fn the_credentials_of_a_dial_are_for_that_dial() {
    for greeting in [LOGGED_IN, LOGGED_IN_3] {
        let (mut driver, commands, session) = live(greeting);
        let waits = Some(leasehold_proto::Confirm::AtLeast(1));
        driver.submit(set(1).confirmed_by(waits), LIFE);
        // A provider that signs gives another token at each call.
        let third = accept(&mut driver, token("third"), "");
        assert_eq!(driver.commands(third)[0], "AUTH app third");
        assert!(driver.commands(commands).is_empty() && driver.commands(session).is_empty());
        assert!(driver.reset.is_empty(), "a session of RESP2 goes on");
        driver.input(Input::Login(Ok(token("for all"))));
        assert_eq!(driver.commands(commands), ["AUTH app for all"]);
    }
}

#[test]
fn the_credentials_that_expire_first_decide_when_all_are_replaced() {
    let mut driver = driver();
    driver.input(Input::Open);
    let commands = accept(&mut driver, token("one").expires_in(LIFE / 2), LOGGED_IN);
    driver.taken(commands);
    driver.subscribe(1, "c");
    let session = accept(&mut driver, token("two"), "+OK\r\n+PONG\r\n");
    driver.taken(session);
    driver.says(session, "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    asked(&mut driver, LIFE / 2 * 3 / 4);
}

#[test]
fn a_provider_that_fails_is_asked_again_after_growing_pauses() {
    let (mut driver, ..) = live(LOGGED_IN);
    asked(&mut driver, LIFE * 3 / 4);
    for pause in [1, 2, 4, 8, 16, 30, 30] {
        driver.input(Input::Login(Err(io::ErrorKind::Other.into())));
        asked(&mut driver, Duration::from_secs(pause));
    }
}

#[test]
fn a_login_that_a_server_refuses_leaves_the_connection_and_is_repeated() {
    let (mut driver, commands, session) = live(LOGGED_IN_3);
    driver.says(session, ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    driver.input(Input::Login(Ok(token("two"))));
    let call = driver.set(1, LIFE);
    assert_eq!(driver.commands(commands), ["AUTH app two", "EVAL 1 k 1"]);
    for id in [commands, session] {
        driver.says(id, "-WRONGPASS invalid username-password pair\r\n");
    }
    driver.says(commands, ":1\r\n");
    assert_eq!(driver.outcomes(), [(call, Ok(leasehold_proto::Reply::Int(1)))]);
    assert!(driver.reset.is_empty());
    driver.taken(session);
    asked(&mut driver, Duration::from_secs(1));
    driver.input(Input::Login(Ok(token("two"))));
    for id in [commands, session] {
        assert_eq!(driver.commands(id), ["AUTH app two"]);
    }
}

#[test]
fn a_client_without_connections_asks_for_nothing() {
    let mut driver = driver();
    driver.input(Input::Open);
    let id = accept(&mut driver, token("one"), LOGGED_IN);
    driver.hang_up(id);
    driver.pass(LIFE);
    assert_eq!(driver.login_requests, 0);
    driver.input(Input::Close);
    assert_eq!(driver.wire.timer(), leasehold_proto::Moment::NEVER);
}

#[test]
fn no_secret_is_in_the_debug_of_a_wire() {
    let (mut driver, commands, _) = live(LOGGED_IN_3);
    driver.input(Input::Login(Ok(token("hunter2"))));
    driver.taken(commands);
    let shown = format!("{:?} {:?}", driver.wire, Input::Login(Ok(token("hunter2"))));
    assert!(shown.contains("***") && !shown.contains("hunter2"), "{shown}");
    assert!(!GREETING.is_empty());
}

#[test]
fn sentinels_log_in_with_the_url_alone() {
    let url = "redis+sentinel://app:one@s1/orders?sentinel_username=eye&sentinel_password=two";
    let mut driver = Driver::at(url, ConnectOptions::default().credentials(token("unused")));
    driver.input(Input::Open);
    assert!(!driver.wire.wants_login(driver.dialed[0]));
    let id = driver.accept_at("s1");
    assert_eq!(driver.commands(id)[0], "AUTH eye two");
}

#[test]
fn sentinels_have_a_provider_of_their_own() {
    let url = "redis+sentinel://app:one@s1/orders?sentinel_username=eye&sentinel_password=two";
    let options =
        ConnectOptions::default().credentials(token("unused")).sentinel_credentials(token("unused"));
    let mut driver = Driver::at(url, options);
    driver.input(Input::Open);
    assert!(driver.wire.wants_login(driver.dialed[0]));
    driver.input(Input::DialLogin(driver.dialed[0], Credentials::new("eye", "three")));
    let id = driver.accept_at("s1");
    assert_eq!(driver.commands(id)[0], "AUTH eye three");
    driver.pass(LIFE);
    assert_eq!(driver.login_requests, 0, "an open connection keeps its login");
}
