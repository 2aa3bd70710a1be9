//! The embedded server behind a stream. Its replies equal the replies of redis-server to the byte, and it never panics.

use std::sync::Arc;
use std::time::Duration;

use leasehold_store::embedded::{Frame, Server, serve};
use leasehold_testkit::servers::RedisServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::TcpStream;

const LIMIT: Duration = Duration::from_secs(20);

fn connect(server: &Arc<Server>) -> DuplexStream {
    let (near, far) = duplex(1 << 16);
    let server = Arc::clone(server);
    #[expect(clippy::disallowed_methods, reason = "a server in a test")]
    tokio::spawn(async move { serve(far, server).await });
    near
}

fn server() -> Arc<Server> {
    Arc::new(Server::new(|| 1_000))
}

fn request(words: &[&str]) -> Vec<u8> {
    Frame::Array(words.iter().map(|word| Frame::bulk(*word)).collect()).encode()
}

/// Reads all bytes of the other side until it closes.
async fn all_of(mut stream: impl tokio::io::AsyncRead + Unpin) -> String {
    let mut bytes = Vec::new();
    #[expect(clippy::disallowed_methods, reason = "a limit in a test")]
    let outcome = tokio::time::timeout(LIMIT, stream.read_to_end(&mut bytes)).await;
    // A reset after the last byte is an end like any other.
    let _ = outcome.expect("the connection is closed");
    bytes.escape_ascii().to_string()
}

/// Conversations that end by QUIT, and must have the same replies on both servers.
const CONVERSATIONS: &[&[&[&str]]] = &[
    &[
        &["PING"],
        &["ping", "x"],
        &["ECHO", "a\r\nb"],
        &["GET", "k"],
        &["SET", "k", "v"],
        &["GET", "k"],
        &["DEL", "k"],
    ],
    &[&["SUBSCRIBE", "a", "a"], &["PING"], &["ping", "x"], &["GET", "k"], &["UNSUBSCRIBE"], &["PING"]],
    &[
        &["PSUBSCRIBE", "a*"],
        &["SUBSCRIBE", "a"],
        &["SSUBSCRIBE", "s"],
        &["PUNSUBSCRIBE"],
        &["UNSUBSCRIBE", "zz"],
        &["SUNSUBSCRIBE"],
        &["UNSUBSCRIBE"],
        &["PUNSUBSCRIBE"],
    ],
    &[&["SUBSCRIBE", "a"], &["RESET"], &["GET", "k"], &["PUBLISH", "a", "x"]],
    &[
        &["CLIENT", "GETNAME"],
        &["CLIENT", "SETNAME", "me"],
        &["CLIENT", "GETNAME"],
        &["CLIENT", "SETNAME", "a b"],
        &["CLIENT", "NOPE"],
        &["CLIENT", "SETINFO", "LIB-NAME", "x"],
    ],
    &[
        &["AUTH", "x"],
        &["AUTH", "default", "x"],
        &["AUTH", "other", "x"],
        &["HELLO", "9"],
        &["HELLO", "x"],
        &["SELECT", "0"],
        &["SELECT", "99"],
        &["SELECT", "x"],
        &["SELECT", "99999999999"],
    ],
    &[
        &["SCRIPT", "LOAD", "return 7"],
        &["EVALSHA", "a5a402e90df3eaeca2ff03d56d99982e05cf6574", "0"],
        &["SCRIPT", "EXISTS", "a5a402e90df3eaeca2ff03d56d99982e05cf6574", "x"],
        &["SCRIPT", "FLUSH"],
        &["EVALSHA", "a5a402e90df3eaeca2ff03d56d99982e05cf6574", "0"],
        &["SCRIPT", "NOPE"],
        &["SCRIPT", "FLUSH", "x"],
        &["SCRIPT", "LOAD", "return if"],
        &["SCRIPT", "LOAD"],
        &["SCRIPT", "KILL"],
    ],
    &[
        &["EVAL", "return 1", "x"],
        &["EVAL", "return 1", "-1"],
        &["EVAL", "return 1", "2", "a"],
        &["EVAL", "return 1"],
        &["EVAL", "", "0"],
        &["EVALSHA", "x", "0"],
    ],
    &[
        &["NOSUCH", "a", "b\r\n"],
        &["GET"],
        &["SUBSCRIBE"],
        &["LPOP", "k", "-1"],
        &["LPOP", "k", "1"],
        &["LPOP", "k", "1", "2"],
        &["FLUSHALL", "x"],
        &["FLUSHALL"],
        &["DBSIZE"],
        &["KEYS", "*"],
        &["PUBSUB", "NOPE"],
        &["PUBSUB", "CHANNELS", "a", "b"],
    ],
];

#[tokio::test]
async fn conversations_match_those_with_a_real_server() {
    let real = RedisServer::start();
    for conversation in CONVERSATIONS {
        let mut bytes: Vec<u8> = conversation.iter().flat_map(|words| request(words)).collect();
        bytes.extend(request(&["QUIT"]));
        let mut theirs = TcpStream::connect(("127.0.0.1", real.port())).await.unwrap();
        theirs.write_all(&bytes).await.unwrap();
        let mut ours = connect(&server());
        ours.write_all(&bytes).await.unwrap();
        assert_eq!(all_of(ours).await, all_of(theirs).await, "{conversation:?}");
    }
}

#[tokio::test]
async fn malformed_requests_end_the_connection_with_an_error() {
    let nonsense: [&[u8]; 7] = [
        b"*1\r\n:5\r\n",
        b"*1\r\n$-1\r\n",
        b"*x\r\n",
        b"*1\r\n$x\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"+OK\r\n",
        b"*1\r\n$4\r\nPINGxx*1\r\n",
    ];
    for bytes in nonsense {
        let mut stream = connect(&server());
        stream.write_all(bytes).await.unwrap();
        println!("{}", bytes.escape_ascii());
        let said = all_of(stream).await;
        assert!(said.starts_with("-ERR Protocol error"), "{}: {said}", bytes.escape_ascii());
    }
}

#[tokio::test]
async fn an_empty_request_is_ignored() {
    let mut stream = connect(&server());
    stream.write_all(b"*0\r\n*-1\r\n").await.unwrap();
    stream.write_all(&request(&["QUIT"])).await.unwrap();
    assert_eq!(all_of(stream).await, "+OK\\r\\n");
}

#[tokio::test]
async fn messages_reach_every_kind_of_subscriber() {
    let server = server();
    let mut stream = connect(&server);
    for words in [["SUBSCRIBE", "c"], ["PSUBSCRIBE", "c*"], ["SSUBSCRIBE", "c"]] {
        stream.write_all(&request(&words)).await.unwrap();
    }
    let confirmed = "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n*3\r\n$10\r\npsubscribe\r\n$2\r\nc*\r\n:2\r\n\
                     *3\r\n$10\r\nssubscribe\r\n$1\r\nc\r\n:1\r\n";
    let mut bytes = vec![0; confirmed.len()];
    stream.read_exact(&mut bytes).await.unwrap();
    assert_eq!(String::from_utf8(bytes).unwrap(), confirmed);
    assert_eq!(server.execute(&["PUBLISH", "c", "1"]), Frame::Int(2));
    assert_eq!(server.execute(&["SPUBLISH", "c", "2"]), Frame::Int(1));
    let heard = "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n1\r\n*4\r\n$8\r\npmessage\r\n$2\r\nc*\r\n$1\r\nc\r\n$1\r\n1\r\n\
                 *3\r\n$8\r\nsmessage\r\n$1\r\nc\r\n$1\r\n2\r\n";
    let mut bytes = vec![0; heard.len()];
    stream.read_exact(&mut bytes).await.unwrap();
    assert_eq!(String::from_utf8(bytes).unwrap(), heard);
    drop(stream);
    while server.execute(&["PUBLISH", "c", "3"]) != Frame::Int(0) {
        tokio::task::yield_now().await;
    }
}
