//! The proxy of the kit, in front of a real server.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::TcpStream;
use std::time::Duration;

use leasehold_testkit::proxy::Proxy;
use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::eventually;

const SOON: Duration = Duration::from_secs(20);
/// The time in which a lost chunk would have arrived.
const A_WHILE: Duration = Duration::from_millis(60);

/// A client that sends inline commands and reads one-line replies.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(proxy: &Proxy) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
        Self(BufReader::new(stream))
    }

    fn send(&mut self, command: &str) {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
    }

    fn receive(&mut self, within: Duration) -> Result<String, ErrorKind> {
        self.0.get_mut().set_read_timeout(Some(within)).unwrap();
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(0) => Err(ErrorKind::UnexpectedEof),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) => Err(error.kind()),
        }
    }

    fn send_command(&mut self, command: &str) -> Result<String, ErrorKind> {
        self.send(command);
        self.receive(SOON)
    }

    fn receives_nothing(&mut self) -> bool {
        self.receive(A_WHILE) == Err(ErrorKind::WouldBlock)
    }
}

fn start() -> (RedisServer, Proxy) {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    (server, proxy)
}

#[test]
fn data_arrives_and_connections_are_counted() {
    let (server, proxy) = start();
    let mut client = Client::connect(&proxy);
    assert_eq!(client.send_command("SET key value").unwrap(), "+OK");
    assert_eq!(server.cli(&["GET", "key"]), "value");
    assert_eq!(proxy.connections(), 1);
    drop(client);
    eventually(SOON, "the connection to end", || proxy.connections() == 0);
}

#[test]
fn large_replies_arrive_whole() {
    let (server, proxy) = start();
    assert_eq!(server.cli(&["SETRANGE", "key", "999999", "x"]), "1000000");
    let mut client = Client::connect(&proxy);
    assert_eq!(client.send_command("GET key").unwrap(), "$1000000");
    assert_eq!(client.receive(SOON).unwrap().len(), 1_000_000);
}

#[test]
fn a_server_without_its_proxy_sees_the_end_of_a_client() {
    let (server, proxy) = start();
    let mut client = Client::connect(&proxy);
    assert_eq!(client.send_command("CLIENT SETNAME someone").unwrap(), "+OK");
    drop(client);
    eventually(SOON, "the server to notice", || !server.cli(&["CLIENT", "LIST"]).contains("name=someone"));
}

#[test]
fn dropped_replies_leave_their_effect_and_reset_the_connection_afterwards() {
    let (server, proxy) = start();
    let mut client = Client::connect(&proxy);
    assert_eq!(client.send_command("PING").unwrap(), "+PONG");
    proxy.drop_replies(true);
    client.send("INCR n");
    eventually(SOON, "the effect", || server.cli(&["GET", "n"]) == "1");
    assert!(client.receives_nothing());
    proxy.drop_replies(false);
    assert_eq!(client.receive(SOON), Err(ErrorKind::ConnectionReset));
    assert_eq!(Client::connect(&proxy).send_command("GET n").unwrap(), "$1");
}

#[test]
fn a_connection_without_losses_survives() {
    let (_server, proxy) = start();
    let mut client = Client::connect(&proxy);
    assert_eq!(client.send_command("PING").unwrap(), "+PONG");
    proxy.black_hole(true);
    proxy.black_hole(false);
    assert_eq!(client.send_command("PING").unwrap(), "+PONG");
}

#[test]
fn dropped_requests_have_no_effect() {
    let (server, proxy) = start();
    let mut client = Client::connect(&proxy);
    assert_eq!(client.send_command("SET n 1").unwrap(), "+OK");
    proxy.drop_requests(true);
    client.send("INCR n");
    assert!(client.receives_nothing());
    assert_eq!(server.cli(&["GET", "n"]), "1");
    proxy.drop_requests(false);
    assert_eq!(client.receive(SOON), Err(ErrorKind::ConnectionReset));
}

#[test]
fn messages_arrive_while_requests_are_dropped() {
    let (server, proxy) = start();
    let mut client = Client::connect(&proxy);
    assert_eq!(client.send_command("SUBSCRIBE news").unwrap(), "*3");
    proxy.drop_requests(true);
    assert_eq!(server.cli(&["PUBLISH", "news", "hello"]), "1");
    eventually(SOON, "the message", || client.receive(SOON).unwrap() == "hello");
}

#[test]
fn messages_can_be_lost_while_commands_are_answered() {
    let (server, proxy) = start();
    let (mut listener, mut speaker) = (Client::connect(&proxy), Client::connect(&proxy));
    assert_eq!(listener.send_command("SUBSCRIBE news").unwrap(), "*3");
    eventually(SOON, "the rest of the answer", || listener.receive(SOON).unwrap() == ":1");
    proxy.drop_messages(true);
    assert_eq!(speaker.send_command("PUBLISH news hello").unwrap(), ":1");
    assert!(listener.receives_nothing());
    listener.send("PING");
    assert!(listener.receives_nothing(), "nothing follows what was lost");
    assert_eq!(speaker.send_command("PING").unwrap(), "+PONG");
    proxy.drop_messages(false);
    assert_eq!(server.cli(&["PUBLISH", "news", "again"]), "1");
    assert!(listener.receive(SOON).is_err(), "a connection that lost something is reset");
}

#[test]
fn a_black_hole_hides_the_end_of_a_client() {
    let (server, proxy) = start();
    let mut client = Client::connect(&proxy);
    assert_eq!(client.send_command("CLIENT SETNAME someone").unwrap(), "+OK");
    proxy.black_hole(true);
    drop(client);
    let mut other = Client::connect(&proxy);
    other.send("PING");
    assert!(other.receives_nothing());
    assert!(server.cli(&["CLIENT", "LIST"]).contains("name=someone"));
    proxy.black_hole(false);
    eventually(SOON, "the server to notice", || !server.cli(&["CLIENT", "LIST"]).contains("name=someone"));
}

#[test]
fn held_replies_arrive_in_order_when_released() {
    let (_server, proxy) = start();
    let mut client = Client::connect(&proxy);
    proxy.hold_replies(true);
    client.send("ECHO first");
    client.send("ECHO second");
    assert!(client.receives_nothing());
    proxy.hold_replies(false);
    let heard: Vec<_> = (0..4).map(|_| client.receive(SOON).unwrap()).collect();
    assert_eq!(heard, ["$5", "first", "$6", "second"]);
}

#[test]
fn a_cut_resets_both_sides_even_while_replies_are_held() {
    let (server, proxy) = start();
    let mut client = Client::connect(&proxy);
    assert_eq!(client.send_command("CLIENT SETNAME someone").unwrap(), "+OK");
    proxy.hold_replies(true);
    client.send("PING");
    proxy.cut();
    assert_eq!(proxy.connections(), 0);
    assert_eq!(client.receive(SOON), Err(ErrorKind::ConnectionReset));
    eventually(SOON, "the server to notice", || !server.cli(&["CLIENT", "LIST"]).contains("name=someone"));
}

#[test]
fn a_cut_does_not_wait_for_a_client_that_does_not_read() {
    let (server, proxy) = start();
    assert_eq!(server.cli(&["SETRANGE", "key", "49999999", "x"]), "50000000");
    let mut client = Client::connect(&proxy);
    assert_eq!(client.send_command("GET key").unwrap(), "$50000000");
    proxy.cut();
    assert_eq!(proxy.connections(), 0);
}

#[test]
fn refused_clients_are_reset_and_connected_ones_continue() {
    let (_server, proxy) = start();
    let mut present = Client::connect(&proxy);
    assert_eq!(present.send_command("PING").unwrap(), "+PONG");
    proxy.refuse(true);
    let refused = Client::connect(&proxy).receive(SOON);
    assert_eq!(refused, Err(ErrorKind::ConnectionReset));
    assert_eq!(present.send_command("PING").unwrap(), "+PONG");
    proxy.refuse(false);
    assert_eq!(Client::connect(&proxy).send_command("PING").unwrap(), "+PONG");
}

#[test]
fn only_the_nth_reply_is_dropped() {
    let (server, proxy) = start();
    let mut client = Client::connect(&proxy);
    proxy.drop_nth_reply(2);
    assert_eq!(client.send_command("INCR n").unwrap(), ":1");
    client.send("INCR n");
    eventually(SOON, "the effect", || server.cli(&["GET", "n"]) == "2");
    assert!(client.receives_nothing());
    assert_eq!(client.send_command("INCR n"), Err(ErrorKind::ConnectionReset));
    assert_eq!(Client::connect(&proxy).send_command("INCR n").unwrap(), ":4");
}

#[test]
fn a_cut_on_the_nth_reply_leaves_its_effect() {
    let (server, proxy) = start();
    let mut client = Client::connect(&proxy);
    proxy.cut_on_nth_reply(2);
    assert_eq!(client.send_command("INCR n").unwrap(), ":1");
    assert_eq!(client.send_command("INCR n"), Err(ErrorKind::ConnectionReset));
    assert_eq!(server.cli(&["GET", "n"]), "2");
}

#[test]
fn a_killed_server_ends_its_clients_and_a_restarted_one_is_reached_again() {
    let (mut server, proxy) = start();
    let mut client = Client::connect(&proxy);
    assert_eq!(client.send_command("PING").unwrap(), "+PONG");
    server.kill();
    assert!(client.receive(SOON).is_err());
    assert_eq!(Client::connect(&proxy).receive(SOON), Err(ErrorKind::ConnectionReset));
    server.restart();
    assert_eq!(Client::connect(&proxy).send_command("PING").unwrap(), "+PONG");
}

#[test]
fn a_dropped_proxy_resets_its_clients() {
    let (_server, proxy) = start();
    let mut client = Client::connect(&proxy);
    assert_eq!(client.send_command("PING").unwrap(), "+PONG");
    drop(proxy);
    assert_eq!(client.receive(SOON), Err(ErrorKind::ConnectionReset));
}
