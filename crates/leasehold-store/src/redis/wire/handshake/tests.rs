//! Tests of the handshake over the answers of different servers, wherever the stream is cut.

use leasehold_proto::{StoreErrorKind as Kind, Verb};

use super::*;
use crate::redis::wire::codec::Decoder;
use crate::redis::wire::harness::commands;
use crate::sharding::ShardedPubsub;

/// A handshake, its commands, and the answers so far.
struct Server {
    handshake: Handshake,
    out: Vec<u8>,
    decoder: Decoder,
}

impl Server {
    fn greeted_by(url: &str, options: &ConnectOptions, facts: Option<ServerFacts>) -> Self {
        Self::of_part(Part::Alone, url, options, facts)
    }

    fn of_part(part: Part, url: &str, options: &ConnectOptions, facts: Option<ServerFacts>) -> Self {
        let url = ServerUrl::parse(url).unwrap();
        let channels = Channels::of_setting(options.sharded_pubsub);
        let terms = Terms { url: &url, options, part, login: None, channels, facts: facts.as_ref() };
        let mut out = Vec::new();
        let handshake = Handshake::begin(terms, &mut out);
        let mut decoder = Decoder::default();
        decoder.accept_resp3(true);
        Self { handshake, out, decoder }
    }

    fn first() -> Self {
        let mut server = Self::greeted_by("redis://server", &ConnectOptions::default(), None);
        server.sent();
        server
    }

    /// Takes the commands that were sent since the last time.
    fn sent(&mut self) -> Vec<String> {
        commands(&std::mem::take(&mut self.out))
    }

    /// Brings answers, and returns the outcome after the last of them.
    fn says(&mut self, text: &str) -> Result<Option<Greeted>, Failure> {
        let mut bytes = text.as_bytes();
        let mut outcome = Ok(None);
        while let Some(value) = self.decoder.next(&mut bytes).unwrap() {
            assert!(matches!(outcome, Ok(None)), "the handshake has ended");
            outcome = self.handshake.answer(value, &mut self.out);
        }
        outcome
    }
}

fn facts(greeted: Result<Option<Greeted>, Failure>) -> ServerFacts {
    greeted.unwrap().expect("the handshake has ended").facts.expect("it was the first")
}

/// The answer to HELLO of a server in this mode.
fn hello(proto: u8, mode: &str) -> String {
    let (header, mode_length) = (if proto == 3 { "%2" } else { "*4" }, mode.len());
    format!("{header}\r\n$5\r\nproto\r\n:{proto}\r\n$4\r\nmode\r\n${mode_length}\r\n{mode}\r\n")
}

fn info(masters: u32) -> String {
    let info = format!("cluster_state:ok\r\ncluster_known_nodes:6\r\ncluster_size:{masters}\r\n");
    format!("${}\r\n{info}\r\n", info.len())
}

/// The facts about a server that is no node of a cluster and denies nothing.
const PLAIN: ServerFacts =
    ServerFacts { channels: Channels::Plain, is_node: false, doubts_channels: false, resp3: false };

#[test]
fn the_first_commands_travel_in_one_write_and_in_order() {
    let named = ConnectOptions::default().client_name(Some("orders".into()));
    let url = "redis://app:word@server/3";
    let mut server = Server::greeted_by(url, &named, None);
    assert_eq!(
        server.sent(),
        [
            "AUTH app word",
            "SELECT 3",
            "PING",
            "CLIENT SETNAME orders",
            "HELLO 3",
            "PUBLISH leasehold:probe ",
            "EVAL_RO 0 SUBSCRIBE SSUBSCRIBE leasehold:probe",
        ]
    );
    let mut server = Server::greeted_by(url, &named, Some(ServerFacts { resp3: true, ..PLAIN }));
    assert_eq!(server.sent(), ["AUTH app word", "SELECT 3", "PING", "CLIENT SETNAME orders", "HELLO 3"]);
    let mut server = Server::greeted_by("redis://:word@server", &ConnectOptions::default(), Some(PLAIN));
    assert_eq!(server.sent(), ["AUTH word", "PING"], "the server is known to speak RESP2");
    let resp2 = ConnectOptions::default().resp3(false);
    let mut server = Server::greeted_by("redis://server", &resp2, None);
    assert_eq!(server.sent()[..2], ["PING", "HELLO"]);
}

#[test]
fn a_server_that_offers_resp3_is_spoken_to_in_resp3() {
    let mut server = Server::first();
    let greeted = server.says(&format!("+PONG\r\n{}:0\r\n:1\r\n", hello(3, "standalone")));
    assert_eq!(facts(greeted), ServerFacts { resp3: true, ..PLAIN });
    assert!(server.out.is_empty());
}

#[test]
fn a_server_without_resp3_is_spoken_to_in_resp2() {
    let mut server = Server::first();
    let greeted =
        server.says("+PONG\r\n-ERR unknown command 'HELLO', with args beginning with: '3' \r\n:0\r\n_\r\n");
    assert_eq!(facts(greeted), PLAIN, "Redis 5");
    assert!(server.out.is_empty());

    let mut server = Server::first();
    assert!(server.says("+PONG\r\n-NOPROTO unsupported protocol version\r\n:0\r\n:1\r\n").unwrap().is_none());
    assert_eq!(server.sent(), ["HELLO"]);
    assert_eq!(facts(server.says(&hello(2, "standalone"))), PLAIN);
}

#[test]
fn a_failed_login_ends_the_handshake_and_repeats_no_password() {
    let url = "redis://app:hunter2@server/1";
    for (says, kind) in [
        ("-WRONGPASS invalid username-password pair or user is disabled.\r\n", Kind::AuthenticationFailed),
        ("-ERR unknown command 'AUTH', with args beginning with: 'hunter2' \r\n", Kind::Server),
        ("+hunter2\r\n", Kind::Malformed),
        ("+OK\r\n-ERR DB index is out of range\r\n", Kind::Server),
        ("+OK\r\n+OK\r\n-LOADING_NOT hunter2\r\n", Kind::Server),
        ("+OK\r\n+OK\r\n:1\r\n", Kind::Malformed),
        ("+OK\r\n+OK\r\n-ERR max number of clients reached\r\n", Kind::TooManyClients),
    ] {
        let mut server = Server::greeted_by(url, &ConnectOptions::default(), Some(PLAIN));
        let failure = server.says(says).unwrap_err().of_unsent().during(Verb::Connect, "".into());
        assert_eq!(failure.kind, kind, "{says}");
        let source = std::error::Error::source(&failure).map(ToString::to_string).unwrap_or_default();
        assert!(!format!("{failure:?} {source}").contains("hunter2"), "{says}");
    }
}

#[test]
fn a_server_whose_refusal_is_unknown_is_quoted() {
    for text in ["ERR unknown command 'PING', with args beginning with: ", "ERR this account is suspended"] {
        let failure =
            Server::first().says(&format!("-{text}\r\n")).unwrap_err().during(Verb::Connect, "".into());
        let source = std::error::Error::source(&failure).map(ToString::to_string).unwrap_or_default();
        assert!(source.contains(text.trim_end()), "{source}");
    }
}

#[test]
fn a_server_that_cannot_serve_at_the_moment_stays_connected() {
    let all = [
        ("LOADING Redis is loading the dataset in memory", Some(Kind::Loading)),
        ("BUSY Redis is busy running a script.", Some(Kind::Busy)),
        ("MASTERDOWN Link with MASTER is down", Some(Kind::MasterDown)),
        ("MISCONF Redis is configured to save RDB snapshots", Some(Kind::Misconfigured)),
        ("NOPERM this user has no permissions to run the 'ping' command", None),
    ];
    for (excuse, kind) in all {
        let mut server = Server::first();
        let greeted = server.says(&format!("-{excuse}\r\n{}:0\r\n:1\r\n", hello(3, "cluster")));
        match kind {
            Some(kind) => {
                let greeted = greeted.unwrap().expect("the handshake has ended");
                assert_eq!(greeted.greeting.unwrap_err().kind, kind);
                assert_eq!(greeted.facts, None, "it identifies itself on the next connection");
            }
            None => assert!(greeted.unwrap().is_none(), "the node is asked for its part of the cluster"),
        }
    }
}

#[test]
fn a_node_that_accepts_the_probe_is_sharded() {
    // The first answer is that of Redis 7.2 and later, the second that of 7.0.15.
    for (answer, channels) in [
        (":0\r\n", Channels::Sharded),
        ("-MOVED 1 127.0.0.1:1\r\n", Channels::Sharded),
        ("-CLUSTERDOWN Hash slot not served\r\n", Channels::Sharded),
        ("-NOPERM No permissions to access a channel\r\n", Channels::Sharded),
        (
            "-ERR unknown command 'SPUBLISH', with args beginning with: 'leasehold:probe' '' \r\n",
            Channels::Plain,
        ),
        ("-NOPERM this user has no permissions to run the 'spublish' command\r\n", Channels::Plain),
        ("-NOPERM User app has no permissions to run the 'spublish' command\r\n", Channels::Plain),
        ("-ERR not here\r\n", Channels::Plain),
        ("+OK\r\n", Channels::Plain),
    ] {
        for unknown in
            [&*info(1), &*info(0), "-NOPERM this user has no permissions to run 'cluster|info'\r\n"]
        {
            let mut server = Server::first();
            assert!(server.says(&format!("+PONG\r\n{}:0\r\n:1\r\n", hello(2, "cluster"))).unwrap().is_none());
            assert_eq!(server.sent(), ["CLUSTER INFO"]);
            assert!(server.says(unknown).unwrap().is_none());
            assert_eq!(server.sent(), ["SPUBLISH leasehold:probe "]);
            assert_eq!(
                facts(server.says(answer)),
                ServerFacts { channels, is_node: true, ..PLAIN },
                "{answer}"
            );
        }
    }
}

#[test]
fn one_of_several_masters_is_rejected_in_both_protocols() {
    let verbatim = info(3).replace('$', "=").replace("cluster_state", "txt:cluster_state");
    let length = info(3).len() - 7;
    for (proto, info) in
        [(2, info(3)), (3, verbatim.replacen(&length.to_string(), &(length + 4).to_string(), 1))]
    {
        let mut server = Server::first();
        assert!(server.says(&format!("+PONG\r\n{}:0\r\n:1\r\n", hello(proto, "cluster"))).unwrap().is_none());
        let failure = server.says(&info).unwrap_err();
        assert_eq!(failure.kind, Kind::WrongNode, "RESP{proto}");
    }
}

#[test]
fn a_setting_for_sharded_channels_needs_no_probe() {
    for (setting, channels) in [(ShardedPubsub::On, Channels::Sharded), (ShardedPubsub::Off, Channels::Plain)]
    {
        let options = ConnectOptions::default().sharded_pubsub(setting);
        let mut server = Server::greeted_by("redis://server", &options, None);
        assert!(server.says(&format!("+PONG\r\n{}:0\r\n:1\r\n", hello(2, "cluster"))).unwrap().is_none());
        assert_eq!(facts(server.says(&info(1))), ServerFacts { channels, is_node: true, ..PLAIN });
    }
}

#[test]
fn a_server_without_the_sharded_channels_of_the_setting_fails_the_connect() {
    let options = ConnectOptions::default().sharded_pubsub(ShardedPubsub::On);
    let mut server = Server::greeted_by("redis://server", &options, None);
    assert!(server.sent().iter().any(|command| command.starts_with("SPUBLISH")));
    let old = "-ERR unknown command `SPUBLISH`, with args beginning with: `leasehold:probe`, ``, ";
    let failure = server.says(&format!("+PONG\r\n{}{old}\r\n", hello(2, "standalone"))).unwrap_err();
    let error = failure.during(Verb::Connect, "".into());
    assert_eq!((error.kind, error.applied), (StoreErrorKind::Server, Applied::No));
    let source = std::error::Error::source(&error).expect("it says what the server lacks").to_string();
    assert!(source.contains("the server has no SPUBLISH"), "{source}");
}

#[test]
fn only_cluster_nodes_get_further_commands() {
    for hello in [&*hello(2, "standalone"), &*hello(2, "sentinel"), "+OK\r\n", "$-1\r\n", "*0\r\n"] {
        let mut server = Server::first();
        assert_eq!(facts(server.says(&format!("+PONG\r\n{hello}:0\r\n:1\r\n"))), PLAIN, "{hello}");
        assert!(server.out.is_empty());
    }
}

#[test]
fn a_server_without_scripts_fails_the_connect_and_is_told_what_it_lacks() {
    let old = "+PONG\r\n*0\r\n:0\r\n-ERR unknown command `EVAL_RO`, with args beginning with: \r\n";
    for (answer, doubts) in [
        (":1", false),
        ("-NOPERM this user has no permissions to run the 'eval' command", true),
        ("-BUSY a script runs", false),
    ] {
        let mut server = Server::first();
        assert!(server.says(old).unwrap().is_none());
        assert_eq!(server.sent(), ["EVAL 1 leasehold:probe"], "Redis 6 has scripts, and not the command");
        let expected = ServerFacts { doubts_channels: doubts, ..PLAIN };
        assert_eq!(facts(server.says(&format!("{answer}\r\n"))), expected, "{answer}");
    }
    for (answer, says) in [
        ("-ERR unknown command `EVAL`, with args beginning with: ", "the server has no EVAL"),
        ("-ERR scripting must be enabled", "scripting must be enabled"),
    ] {
        let mut server = Server::first();
        assert!(server.says(old).unwrap().is_none());
        let error = server.says(&format!("{answer}\r\n")).unwrap_err().during(Verb::Connect, "".into());
        let source = std::error::Error::source(&error).expect("it says what the server lacks").to_string();
        assert!(source.contains(says), "{source}");
    }
}

#[test]
fn a_refused_probe_marks_the_users_channels_as_uncertain() {
    for (published, subscribes, doubts_channels) in [
        ("-NOPERM this user has no permissions to access one of the channels used as arguments", ":1", true),
        ("-NOPERM User app has no permissions to access the 'leasehold:probe' channel", ":1", true),
        ("-NOPERM this user has no permissions to run the 'publish' command", ":1", true),
        ("-ERR unknown command 'PUBLISH'", ":1", false),
        (":0", ":0", true),
        // Redis 6 answers nil.
        (":0", "$-1", false),
    ] {
        let mut server = Server::first();
        let greeted = server.says(&format!("+PONG\r\n*0\r\n{published}\r\n{subscribes}\r\n"));
        assert_eq!(facts(greeted).doubts_channels, doubts_channels, "{published} {subscribes}");
    }
}
