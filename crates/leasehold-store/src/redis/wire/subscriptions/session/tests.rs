//! Tests of a session over a stream in memory, on a clock that the test moves. The server of most tests is played in
//! both protocols.

use leasehold_proto::Channel;

use super::*;
use crate::redis::connect::ConnectOptions;
use crate::redis::wire::SubscriberId;
use crate::redis::wire::harness::{Driver, ROWS};
use crate::sharding::ShardedPubsub;
use crate::store::Heard;

const MS: Duration = Duration::from_millis(1);

/// The two protocols of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Resp2,
    Resp3,
}

/// A session that listens to `c`, and its server.
struct Server {
    driver: Driver,
    id: ConnId,
    protocol: Protocol,
}

impl Server {
    /// Returns a server whose session has sent its first command.
    fn start(protocol: Protocol, sharded: ShardedPubsub) -> Self {
        let options = ConnectOptions::default().sharded_pubsub(sharded);
        let mut driver = Driver::with(options);
        driver.subscribe(1, "c");
        let mut server = Self { id: driver.accept(), driver, protocol };
        server.greet();
        let expected = if sharded == ShardedPubsub::On { "SSUBSCRIBE c" } else { "SUBSCRIBE c" };
        assert_eq!(server.sent().last().map(String::as_str), Some(expected));
        server
    }

    fn plain(protocol: Protocol) -> Self {
        Self::start(protocol, ShardedPubsub::Off)
    }

    /// Returns a server that has confirmed the first subscription.
    fn listening(protocol: Protocol) -> Self {
        let mut server = Self::plain(protocol);
        server.confirms("subscribe", "c");
        assert_eq!(server.heard(), [(1, listening("c"))]);
        server
    }

    fn greet(&mut self) {
        let hello = match self.protocol {
            Protocol::Resp2 => "-ERR unknown command 'HELLO'\r\n",
            Protocol::Resp3 => "%1\r\n$5\r\nproto\r\n:3\r\n",
        };
        self.says(&format!("+PONG\r\n{hello}:0\r\n:1\r\n"));
    }

    fn says(&mut self, text: &str) {
        self.driver.says(self.id, text);
    }

    /// Sends an answer or a message in the form of the protocol.
    fn tells(&mut self, words: [&str; 2], last: &str) {
        let kind = if self.protocol == Protocol::Resp3 { '>' } else { '*' };
        let words = words.map(|word| format!("${}\r\n{word}\r\n", word.len())).concat();
        self.says(&format!("{kind}3\r\n{words}{last}"));
    }

    fn confirms(&mut self, word: &str, channel: &str) {
        self.tells([word, channel], ":1\r\n");
    }

    fn sends_message(&mut self, word: &str, channel: &str) {
        self.tells([word, channel], "$1\r\n0\r\n");
    }

    fn pongs(&mut self) {
        let pong =
            if self.protocol == Protocol::Resp3 { "+PONG\r\n" } else { "*2\r\n$4\r\npong\r\n$0\r\n\r\n" };
        self.says(pong);
    }

    /// Takes the commands that were sent since the last time.
    fn sent(&mut self) -> Vec<String> {
        self.driver.commands(self.id)
    }

    fn heard(&mut self) -> Vec<(u64, Heard)> {
        std::mem::take(&mut self.driver.heard)
    }

    /// Returns the time that passes until the session ends.
    fn lasts(&mut self) -> Duration {
        let begin = self.driver.now;
        while self.is_open() {
            self.driver.pass(MS);
        }
        self.driver.now.since(begin)
    }

    fn is_open(&self) -> bool {
        self.driver.streams.contains_key(&self.id)
    }

    /// Gives the next attempt a stream, greets and reads the first command.
    fn reconnects(&mut self) -> Vec<String> {
        self.id = self.driver.accept();
        let hello = if self.protocol == Protocol::Resp3 { "%1\r\n$5\r\nproto\r\n:3\r\n" } else { "" };
        self.says(&format!("+PONG\r\n{hello}"));
        self.sent()
    }
}

fn listening(channel: &str) -> Heard {
    Heard::Listening(Channel::new(channel))
}

fn message(channel: &str) -> Heard {
    Heard::Message(Channel::new(channel), b"0".to_vec())
}

const BOTH: [Protocol; 2] = [Protocol::Resp2, Protocol::Resp3];

#[test]
fn a_silent_server_is_pinged_and_then_disconnected() {
    for protocol in BOTH {
        let mut server = Server::listening(protocol);
        for _ in 0..3 {
            server.driver.pass(PING_EVERY - MS);
            assert!(server.sent().is_empty());
            server.driver.pass(MS);
            assert_eq!(server.sent(), ["PING"]);
            server.pongs();
        }
        assert_eq!(server.lasts(), PING_EVERY + ANSWER_WITHIN);
        // The connection was useful, so its end has a short pause behind it.
        server.driver.pass(Duration::from_millis(20));
        assert_eq!(server.reconnects().last().unwrap(), "SUBSCRIBE c");
        server.confirms("subscribe", "c");
        assert_eq!(server.heard(), [(1, listening("c"))], "each confirmation is an event");
    }
}

#[test]
fn an_unconfirmed_subscription_times_out_despite_other_traffic() {
    for protocol in BOTH {
        let mut server = Server::plain(protocol);
        server.sends_message("message", "c");
        assert_eq!(server.heard(), [(1, message("c"))]);
        server.driver.pass(ANSWER_WITHIN / 2);
        server.sends_message("message", "c");
        assert_eq!(server.lasts(), ANSWER_WITHIN / 2);
    }
}

#[test]
fn messages_do_not_delay_the_end_of_an_unresponsive_connection() {
    let mut server = Server::listening(Protocol::Resp2);
    let begin = server.driver.now;
    while server.is_open() {
        server.sends_message("message", "c");
        server.driver.pass(Duration::from_secs(1));
    }
    assert_eq!(server.driver.now.since(begin), PING_EVERY + ANSWER_WITHIN);
}

#[test]
fn a_refused_channel_is_retried_on_the_same_connection() {
    let mut server = Server::plain(Protocol::Resp3);
    for refusal in ["NOPERM this user has no permissions to access one of the channels", "BUSY Redis is busy"]
    {
        server.says(&format!("-{refusal}\r\n"));
        server.driver.pass(RETRY_REFUSED_AFTER - MS);
        assert!(server.sent().is_empty());
        server.driver.pass(MS);
        assert_eq!(server.sent(), ["SUBSCRIBE c"]);
    }
    server.confirms("subscribe", "c");
    assert_eq!(server.heard(), [(1, listening("c"))]);
    server.driver.pass(PING_EVERY);
    assert_eq!(server.sent(), ["PING"]);
}

#[test]
fn a_refused_channel_is_retried_while_others_come_and_go() {
    for protocol in BOTH {
        let mut server = Server::plain(protocol);
        server.says("-BUSY Redis is busy\r\n");
        for number in 2..=3 {
            // Another waiter begins to listen before each second is over.
            server.driver.pass(RETRY_REFUSED_AFTER - 400 * MS);
            let channel = format!("c{number}");
            server.driver.subscribe(number, &channel);
            if number == 2 {
                assert_eq!(server.sent(), ["SUBSCRIBE c2"]);
                server.confirms("subscribe", &channel);
            }
        }
        assert_eq!(server.sent(), ["SUBSCRIBE c", "SUBSCRIBE c3"], "a second is over");
    }
}

#[test]
fn a_session_ends_on_a_password_request_or_a_malformed_reply() {
    for nonsense in
        ["-NOAUTH Authentication required.\r\n", ":1\r\n", "HTTP/1.1 400\r\n", "*0\r\n", ">1\r\n:1\r\n"]
    {
        for protocol in BOTH {
            let mut server = Server::plain(protocol);
            server.says(nonsense);
            assert!(!server.is_open(), "{nonsense}");
            assert!(server.heard().is_empty());
        }
    }
}

#[test]
fn a_lost_connection_is_replaced_and_each_channel_confirmed_again() {
    let mut server = Server::listening(Protocol::Resp3);
    server.driver.subscribe(2, "d");
    assert_eq!(server.sent(), ["SUBSCRIBE d"]);
    let id = server.id;
    server.driver.hang_up(id);
    // Orders are read also while there is no connection, and cost no command.
    server.driver.unsubscribe(1, "c");
    server.driver.subscribe(3, "e");
    for id in 10..1_000 {
        server.driver.subscribe(id, "gone");
        server.driver.unsubscribe(id, "gone");
    }
    server.driver.pass(Duration::from_millis(20));
    assert_eq!(server.reconnects(), ["PING", "HELLO 3", "SUBSCRIBE d e"]);
    server.confirms("subscribe", "d");
    server.confirms("subscribe", "e");
    assert_eq!(server.heard(), [(2, listening("d")), (3, listening("e"))]);
}

#[test]
fn without_subscribers_there_is_no_connection() {
    let mut driver = Driver::new(ROWS);
    driver.subscribe(1, "c");
    assert_eq!(driver.dialed.len(), 1);
    driver.unsubscribe(1, "c");
    driver.refuse();
    driver.pass(Duration::from_secs(10));
    assert_eq!(driver.dialed.len(), 1);
    driver.subscribe(1, "c");
    assert_eq!(driver.dialed.len(), 2);
}

#[test]
fn attempts_to_connect_keep_their_pace() {
    let mut driver = Driver::new(ROWS);
    driver.subscribe(1, "c");
    let end = driver.now + Duration::from_secs(10);
    while driver.now < end {
        driver.refuse();
        driver.pass(driver.wire.timer().since(driver.now));
    }
    assert!((24..=48).contains(&driver.dialed.len()), "{}", driver.dialed.len());
}

#[test]
fn the_last_subscriber_unsubscribes_after_a_while() {
    for protocol in BOTH {
        let mut server = Server::listening(protocol);
        server.driver.unsubscribe(1, "c");
        server.driver.pass(2 * IDLE_FOR - MS);
        assert!(server.sent().is_empty());
        server.driver.pass(MS);
        assert_eq!(server.sent(), ["UNSUBSCRIBE c"]);
        server.confirms("unsubscribe", "c");
        server.driver.pass(PING_EVERY);
        assert_eq!(server.sent(), ["PING"]);
    }
}

/// Answers these commands and those that follow, and returns their number.
fn answer(server: &mut Server, mut commands: Vec<String>) -> usize {
    let mut count = 0;
    while !commands.is_empty() {
        count += commands.len();
        for command in commands {
            let (word, channels) = command.split_once(' ').expect("a command has channels");
            channels.split(' ').for_each(|channel| server.confirms(&word.to_lowercase(), channel));
        }
        commands = server.sent();
    }
    count
}

#[test]
fn channels_that_come_and_go_together_share_commands() {
    for (count, most) in [(1, 1), (16, 1), (1_000, 1), (20_000, 40)] {
        let ids = 1..=count;
        let mut server = Server::listening(Protocol::Resp3);
        server.driver.unsubscribe(1, "c");
        server.driver.hang_up(server.id);
        ids.clone().for_each(|id| server.driver.subscribe(id, &format!("x{id}")));
        server.driver.pass(Duration::from_millis(20));
        let greeted = server.reconnects();
        let joins = answer(&mut server, greeted[2..].to_vec());
        assert!((1..=most).contains(&joins), "{count}: {joins}");
        // A channel that is wanted again soon stays subscribed.
        ids.clone().for_each(|id| server.driver.unsubscribe(id, &format!("x{id}")));
        server.driver.pass(IDLE_FOR);
        ids.clone().for_each(|id| server.driver.subscribe(id, &format!("x{id}")));
        server.driver.pass(2 * IDLE_FOR);
        assert!(server.sent().is_empty(), "{count}");
        ids.clone().for_each(|id| server.driver.unsubscribe(id, &format!("x{id}")));
        server.driver.pass(2 * IDLE_FOR);
        let left = server.sent();
        let leaves = answer(&mut server, left);
        assert!((1..=most).contains(&leaves), "{count}: {leaves}");
    }
}

#[test]
fn channels_requested_at_once_share_a_command_unless_the_server_refuses_it() {
    const DENIED: &str = "-NOPERM no permissions to access a channel\r\n";
    let mut server = Server::plain(Protocol::Resp2);
    // While the answers of many channels are missing, further changes gather.
    let last = ROOM_MIN as u64 + 1;
    for id in 2..=last {
        server.driver.subscribe(id, &format!("x{id}"));
    }
    server.sent();
    server.driver.subscribe(1_001, "d");
    server.driver.subscribe(1_002, "e");
    assert!(server.sent().is_empty());
    server.confirms("subscribe", "c");
    assert_eq!(server.sent(), ["SUBSCRIBE d e"]);
    for id in 2..=last {
        server.confirms("subscribe", &format!("x{id}"));
    }
    assert_eq!(server.heard().len() as u64, last);
    server.says(DENIED);
    assert_eq!(server.sent(), ["SUBSCRIBE d", "SUBSCRIBE e"]);
    server.says(DENIED);
    server.confirms("subscribe", "e");
    assert_eq!(server.heard(), [(1_002, listening("e"))]);
    server.driver.pass(RETRY_REFUSED_AFTER);
    assert_eq!(server.sent(), ["SUBSCRIBE d"]);
    server.confirms("subscribe", "d");
    assert_eq!(server.heard(), [(1_001, listening("d"))]);
}

#[test]
fn a_channel_whose_slot_moved_is_retried_until_the_node_serves_it() {
    for protocol in BOTH {
        let mut server = Server::start(protocol, ShardedPubsub::On);
        server.confirms("ssubscribe", "c");
        server.sends_message("smessage", "c");
        server.confirms("sunsubscribe", "c");
        assert_eq!(server.sent(), ["SSUBSCRIBE c"]);
        server.says("-MOVED 7365 127.0.0.1:1\r\n");
        server.driver.pass(RETRY_REFUSED_AFTER);
        assert_eq!(server.sent(), ["SSUBSCRIBE c"]);
        server.confirms("ssubscribe", "c");
        assert_eq!(server.heard(), [(1, listening("c")), (1, message("c")), (1, listening("c"))]);
    }
}

#[test]
fn a_channel_left_moved_and_rejoined_is_confirmed_once() {
    let mut server = Server::start(Protocol::Resp2, ShardedPubsub::On);
    server.confirms("ssubscribe", "c");
    server.heard();
    server.driver.unsubscribe(1, "c");
    server.driver.pass(2 * IDLE_FOR);
    assert_eq!(server.sent(), ["SUNSUBSCRIBE c"]);
    server.driver.subscribe(2, "c");
    // The server ends the subscription by itself, and then answers both commands.
    server.confirms("sunsubscribe", "c");
    assert_eq!(server.sent(), ["SSUBSCRIBE c"]);
    server.confirms("sunsubscribe", "c");
    server.confirms("ssubscribe", "c");
    assert_eq!(server.heard(), [(2, listening("c"))]);
    // The server may also end the subscription of a channel without a subscriber.
    server.confirms("sunsubscribe", "x");
    assert!(server.is_open() && server.heard().is_empty());
}

#[test]
fn an_unresponsive_server_gets_a_bounded_number_of_commands() {
    let mut server = Server::listening(Protocol::Resp3);
    let mut asked = 0;
    for id in 2..20_000 {
        let channel = format!("channel {id}");
        server.driver.subscribe(id, &channel);
        asked += server.sent().len();
        server.driver.unsubscribe(id, &channel);
    }
    assert!(asked <= PENDING_MAX, "{asked}");
}

#[test]
fn messages_are_delivered_wherever_the_stream_is_cut() {
    let text = ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n>3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$1\r\n0\r\n";
    for cut in 0..=text.len() {
        let mut server = Server::listening(Protocol::Resp3);
        server.driver.input(crate::redis::wire::Input::Subscribe(SubscriberId(2), Channel::new("c")));
        assert_eq!(server.heard(), [(2, listening("c"))]);
        server.says(&text[..cut]);
        server.says(&text[cut..]);
        assert_eq!(server.heard(), [(1, message("c")), (2, message("c"))], "cut at {cut}");
    }
}
