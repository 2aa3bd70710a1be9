//! Attacks on the page of `leasehold dashboard`, each with its defence. `tests/page/` shows the page to a browser.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};

use leasehold::{Client, Guard};
use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::eventually;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::fixture::{LIMIT, leasehold};

/// A running dashboard on a port of its own.
struct Dashboard {
    process: Child,
    port: u16,
    token: String,
    _server: Option<RedisServer>,
}

impl Dashboard {
    fn start(options: &[&str]) -> Self {
        let server = RedisServer::start();
        let mut dashboard = Self::of(&server, options);
        dashboard._server = Some(server);
        dashboard
    }

    fn of(server: &RedisServer, options: &[&str]) -> Self {
        let mut command = leasehold();
        command.args(["dashboard", "--listen", "127.0.0.1:0", "--url", &server.url()]).args(options);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let (origin, token) = url.trim().split_once("/#token=").unwrap();
        let port = origin.rsplit(':').next().unwrap().parse().unwrap();
        Self { process, port, token: token.to_owned(), _server: None }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream
    }

    /// Sends a request, with the right host and the token unless the headers say otherwise.
    fn ask(&self, request: &str, headers: &[&str], body: &str) -> Answer {
        let has = |name: &str| headers.iter().any(|header| header.to_lowercase().starts_with(name));
        let mut text =
            format!("{request} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        if !has("host:") {
            text += &format!("Host: 127.0.0.1:{}\r\n", self.port);
        }
        if !has("authorization:") {
            text += &format!("Authorization: Bearer {}\r\n", self.token);
        }
        headers
            .iter()
            .filter(|header| !header.is_empty())
            .for_each(|header| text += &format!("{header}\r\n"));
        let mut stream = self.connect();
        stream.write_all(format!("{text}\r\n{body}").as_bytes()).unwrap();
        Answer::read(stream)
    }

    fn status(&self, request: &str, headers: &[&str]) -> u16 {
        self.ask(request, headers, "").status
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.process.id().cast_signed()), Signal::SIGTERM);
        let ended = self.process.wait().unwrap();
        assert!(std::thread::panicking() || ended.success(), "a signal ends it in order");
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn read(mut stream: impl Read) -> Self {
        let mut text = Vec::new();
        stream.read_to_end(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head: head.to_lowercase(), body: body.to_owned() }
    }
}

const STATE: &str = "GET /api/1/state";

#[test]
fn a_request_under_another_name_is_misdirected_whatever_it_asks_for() {
    let dashboard = Dashboard::start(&["--allow-host", "locks.example.org"]);
    let own = format!("Host: localhost:{}", dashboard.port);
    for host in [&own, "Host: locks.example.org"] {
        assert_eq!(dashboard.status(STATE, &[host]), 200, "{host}");
    }
    for path in ["GET /", "GET /app.js", STATE, "GET /api/1/events", "GET /nothing", "POST /api/1/release"] {
        for host in ["Host: evil.example.org", "Host: 127.0.0.1", "Host: 127.0.0.1:1"] {
            assert_eq!(dashboard.status(path, &[host]), 421, "{path} {host}");
        }
    }
}

#[test]
fn nothing_with_data_is_told_without_the_token() {
    let dashboard = Dashboard::start(&["--metrics"]);
    for path in [STATE, "GET /api/1/events", "GET /api/1/object?name=a", "GET /metrics", "GET /nothing"] {
        assert_eq!(dashboard.status(path, &["Authorization: Bearer wrong"]), 401, "{path}");
    }
    let half = &dashboard.token[..32];
    for given in ["Authorization: Basic x", &format!("Authorization: Bearer {half}")] {
        assert_eq!(dashboard.status(STATE, &[given]), 401);
    }
    for path in ["GET /", "GET /app.js", "GET /style.css"] {
        let page = dashboard.ask(path, &["Authorization: x"], "");
        assert!(page.status == 200 && !page.body.contains(&dashboard.token), "{path}");
    }
    // The port is open to every user of the machine.
    let guess = || dashboard.status(STATE, &["Authorization: Bearer wrong"]);
    eventually(LIMIT, "guesses to be slowed down", || guess() == 429);
    assert_eq!(dashboard.status(STATE, &[]), 200, "the right token is not locked out");
}

#[test]
fn a_file_gives_the_token_and_its_text_is_checked() {
    let server = RedisServer::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "0123456789abcdef\n").unwrap();
    let dashboard = Dashboard::of(&server, &["--token-file", file.to_str().unwrap()]);
    assert_eq!(dashboard.token, "0123456789abcdef");
    for wrong in ["short", "with a space 0123456789", ""] {
        std::fs::write(&file, wrong).unwrap();
        let mut command = leasehold();
        command.args(["dashboard", "--listen", "127.0.0.1:0", "--url", &server.url()]);
        let ended = command.arg("--token-file").arg(&file).output().unwrap();
        assert_eq!(ended.status.code(), Some(64), "{wrong:?}");
    }
}

#[test]
fn every_answer_forbids_what_a_hostile_name_could_do() {
    let dashboard = Dashboard::start(&[]);
    for (path, headers) in [("GET /", &[][..]), (STATE, &[]), ("GET /nothing", &[]), (STATE, &["Host: evil"])]
    {
        let head = dashboard.ask(path, headers, "").head;
        for wanted in [
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';",
            "require-trusted-types-for 'script'",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cross-origin-opener-policy: same-origin",
            "cross-origin-resource-policy: same-origin",
            "cache-control: no-store",
        ] {
            assert!(head.contains(wanted), "{path}: {wanted} is missing in {head}");
        }
        assert!(!head.contains("access-control-") && !head.contains("set-cookie"), "{path}: {head}");
    }
}

/// Returns a hold, in a runtime that keeps it.
fn held(server: &RedisServer, name: &str) -> (tokio::runtime::Runtime, Client, Guard) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = runtime.block_on(Client::connect(&server.url())).unwrap();
    let guard = runtime.block_on(client.lock(name).lock()).unwrap();
    (runtime, client, guard)
}

#[test]
fn a_reader_has_no_way_to_release() {
    let server = RedisServer::start();
    let (_runtime, _client, guard) = held(&server, "job");
    let dashboard = Dashboard::of(&server, &[]);
    let body = format!(r#"{{"name":"job","owner":"{}"}}"#, guard.wire_owner());
    let answer = dashboard.ask("POST /api/1/release", &["Content-Type: application/json"], &body);
    assert_eq!((answer.status, server.cli(&["EXISTS", "job"])), (404, "1".to_owned()));
}

#[test]
fn a_release_comes_from_the_page_itself_and_frees_that_hold_or_nothing() {
    let server = RedisServer::start();
    let (_runtime, _client, guard) = held(&server, "job");
    let dashboard = Dashboard::of(&server, &["--allow-release"]);
    let release = |headers: &[&str], body: &str| dashboard.ask("POST /api/1/release", headers, body);
    let of = |owner: &str| format!(r#"{{"name":"job","owner":"{owner}"}}"#);
    let (owner, json) = (guard.wire_owner().to_string(), "Content-Type: application/json");
    for (status, headers) in [
        (415, &["Content-Type: text/plain"][..]),
        (415, &[]),
        (403, &[json, "Sec-Fetch-Site: cross-site"]),
        (403, &[json, "Sec-Fetch-Site: same-site"]),
        (401, &[json, "Authorization: Bearer x"]),
        (421, &[json, "Host: evil.example.org"]),
    ] {
        assert_eq!(release(headers, &of(&owner)).status, status, "{headers:?}");
    }
    for wrong in ["", "{}", "[]", r#"{"name":"job"}"#, r#"{"name":"job","owner":"x","also":1}"#] {
        assert_eq!(release(&[json], wrong).status, 400, "{wrong}");
    }
    assert_eq!(release(&[json], &"x".repeat(70_000)).status, 400);
    let other = format!("{}:9", &owner[..36]);
    assert!(release(&[json], &of(&other)).body.contains("another owner"));
    assert_eq!(server.cli(&["EXISTS", "job"]), "1");
    let released = release(&[json, "Sec-Fetch-Site: same-origin"], &of(&owner));
    assert_eq!((released.status, released.body.as_str()), (200, r#"{"outcome":"released"}"#));
    assert_eq!(server.cli(&["EXISTS", "job"]), "0");
}

#[test]
fn an_address_of_the_network_needs_a_proxy_with_tls() {
    let server = RedisServer::start();
    let mut command = leasehold();
    let ended =
        command.args(["dashboard", "--listen", "0.0.0.0:0", "--url", &server.url()]).output().unwrap();
    assert_eq!(ended.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("--behind-proxy"));
}

#[test]
fn a_socket_of_the_file_system_is_for_its_owner() {
    let (server, folder) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let path = folder.path().join("page.sock");
    let mut command = leasehold();
    command.arg("dashboard").arg("--listen").arg(format!("unix:{}", path.display()));
    let mut process = command.args(["--url", &server.url()]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let token = line.trim().strip_prefix("token ").unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mut stream = UnixStream::connect(&path).unwrap();
    let request = format!(
        "{STATE} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    assert_eq!(Answer::read(stream).status, 200);
    kill(Pid::from_raw(process.id().cast_signed()), Signal::SIGTERM).unwrap();
    assert!(process.wait().unwrap().success() && !path.exists());
}

#[test]
fn viewers_and_slow_requests_are_bounded() {
    let dashboard = Dashboard::start(&[]);
    let request = format!(
        "GET /api/1/events HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\n\r\n",
        dashboard.port, dashboard.token
    );
    let viewers: Vec<_> = (0..50)
        .map(|_| {
            let mut stream = dashboard.connect();
            stream.write_all(request.as_bytes()).unwrap();
            let mut line = String::new();
            BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
            assert!(line.contains("200"), "{line}");
            stream
        })
        .collect();
    assert_eq!(dashboard.status("GET /api/1/events", &[]), 503);
    assert_eq!(dashboard.status(STATE, &[]), 200, "other requests are answered");
    drop(viewers);
    eventually(LIMIT, "room for a viewer", || {
        let mut stream = dashboard.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line.contains("200")
    });
    // A head that never ends.
    let mut slow = dashboard.connect();
    slow.write_all(b"GET / HTTP/1.1\r\nHost: 127").unwrap();
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).unwrap();
}

#[test]
fn hostile_requests_are_refused_and_end_nothing() {
    let dashboard = Dashboard::start(&["--metrics"]);
    for bytes in [
        &b"\x00\xff\x16\x03\x01"[..],
        b"GET / HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &[b'x'; 100_000],
    ] {
        let mut stream = dashboard.connect();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    for path in [
        "GET /api/1/object?name=%ff",
        "GET /api/1/object?name=%zz",
        "GET /api/1/object",
        "GET /api/1/object?x=1",
    ] {
        assert_eq!(dashboard.status(path, &[]), 400, "{path}");
    }
    for path in ["GET /../etc/passwd", "GET /api/1/state/", "DELETE /api/1/state", "OPTIONS /api/1/release"] {
        assert_eq!(dashboard.status(path, &[]), 404, "{path}");
    }
    let metrics = dashboard.ask("GET /metrics", &[], "");
    assert!(
        metrics.status == 200 && metrics.body.contains("# TYPE leasehold_fleet_held gauge"),
        "{}",
        metrics.body
    );
}

#[test]
fn a_server_that_is_gone_is_told_and_the_page_stays() {
    let mut server = RedisServer::start();
    let dashboard = Dashboard::of(&server, &["--timeout", "300ms"]);
    server.kill();
    let mut stream = dashboard.connect();
    let request = format!(
        "GET /api/1/events HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\n\r\n",
        dashboard.port, dashboard.token
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines();
    let told =
        lines.any(|line| line.is_ok_and(|line| line.contains(r#""problem":"#) && line.contains("reach")));
    assert!(told, "viewers learn why the page stands still");
    assert_eq!(dashboard.status("GET /", &[]), 200);
}
