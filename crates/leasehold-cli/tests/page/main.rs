//! The page of `leasehold dashboard` in a real browser.
//!
//! `cargo x page` installs Chromium if it may, and runs these tests.

#![allow(clippy::unwrap_used, reason = "helpers of tests are test code too")]
#![allow(clippy::disallowed_methods, reason = "test code: threads and real time")]

mod browser;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use leasehold::{Client, ClientBuilder, Guard};
use leasehold_testkit::servers::RedisServer;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use browser::Browser;

/// A client id as Redisson makes it.
const JAVA: &str = "11111111-2222-4333-8444-555555555555";

/// A running dashboard.
struct Dashboard {
    process: Child,
    url: String,
}

impl Dashboard {
    fn start(server: &RedisServer, options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
        // The configuration of the tester is not that of the test.
        let names = std::env::vars_os().map(|(name, _)| name);
        names
            .filter(|name| name.to_string_lossy().starts_with("LEASEHOLD_"))
            .for_each(|name| _ = command.env_remove(name));
        command.args(["dashboard", "--listen", "127.0.0.1:0", "--url", &server.url()]).args(options);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        assert!(url.starts_with("http"), "{:?}", process.try_wait());
        Self { process, url: url.trim().to_owned() }
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        let pid = Pid::from_raw(self.process.id().cast_signed());
        let _ = kill(pid, Signal::SIGTERM);
        let ended = self.process.wait().unwrap();
        assert!(std::thread::panicking() || ended.success(), "a signal ends it in order");
    }
}

/// The runtime of the clients of a test.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn builder(name: &str) -> ClientBuilder {
    Client::builder().watchdog(Duration::from_millis(600)).client_name(name)
}

/// Waits in the background for a lock that is held.
fn wait_for(
    runtime: &tokio::runtime::Runtime,
    client: &Client,
    name: &str,
) -> tokio::task::JoinHandle<Guard> {
    let lock = client.lock(name);
    runtime.spawn(async move { lock.lock().await.unwrap() })
}

/// Returns an expression that is true once the row of this name has this text.
fn row_says(name: &str, text: &str) -> String {
    let (name, text) = (json!(name), json!(text));
    format!(
        "[...document.querySelectorAll('#locks tbody tr')].some((row) => row.cells[0].textContent === {name} && \
         row.innerText.includes({text}))"
    )
}

#[test]
fn a_hold_of_rust_and_one_of_java_are_shown_and_pass_on() {
    let (server, runtime) = (RedisServer::start(), runtime());
    let orders = runtime.block_on(builder("orders").connect(&server.url())).unwrap();
    let billing = runtime.block_on(builder("billing").connect(&server.url())).unwrap();
    let guard = runtime.block_on(orders.lock("order:42").note("import of today").lock()).unwrap();
    let java = format!("{JAVA}:57");
    assert_eq!(server.cli(&["HSET", "java:job", &java, "1"]), "1");
    assert_eq!(server.cli(&["PEXPIRE", "java:job", "3600000"]), "1");
    let waiting = wait_for(&runtime, &billing, "java:job");
    let next = wait_for(&runtime, &billing, "order:42");

    let dashboard = Dashboard::start(&server, &[]);
    let mut browser = Browser::start();
    browser.show_as((1280, 800), "light");
    browser.open(&dashboard.url);
    browser.until(&row_says("order:42", "orders@"));
    browser.until(&row_says("order:42", "import of today"));
    browser.until(&row_says("java:job", "thread 57"));
    browser.until("document.getElementById('summary').textContent.startsWith('2 locks held, 2 waited for')");
    assert_eq!(browser.eval("location.href.includes('token')"), json!(false), "the token leaves the address");
    browser.picture("desktop-light.png");
    browser.show_as((1280, 800), "dark");
    browser.picture("desktop-dark.png");
    browser.show_as((390, 844), "light");
    browser.picture("phone-light.png");
    browser.show_as((390, 844), "dark");
    browser.picture("phone-dark.png");
    let width = "document.documentElement.scrollWidth <= 390";
    assert_eq!(browser.eval(width), json!(true), "a phone scrolls in one direction");
    browser.show_as((1280, 800), "light");

    drop(guard);
    browser.until(&row_says("order:42", "billing@"));
    assert_eq!(server.cli(&["DEL", "java:job"]), "1");
    drop((runtime.block_on(next).unwrap(), waiting));
    browser.until("document.getElementById('empty').hidden === false || document.querySelectorAll('#locks tbody tr').length === 1");
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
}

#[test]
fn a_queue_moves() {
    let (server, runtime) = (RedisServer::start(), runtime());
    let client = runtime.block_on(builder("orders").connect(&server.url())).unwrap();
    let guard = runtime.block_on(client.fair_lock("queue").lock()).unwrap();
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let lock = client.fair_lock("queue");
            runtime.spawn(async move { lock.lock().await.unwrap() })
        })
        .collect();
    let dashboard = Dashboard::start(&server, &[]);
    let mut browser = Browser::start();
    browser.open(&dashboard.url);
    let waits = |number: &str| {
        format!("document.querySelector('#locks tbody td[data-label=Waiting]')?.textContent === '{number}'")
    };
    browser.until(&waits("3"));
    drop(guard);
    let second = waiters.into_iter().map(|waiter| runtime.block_on(waiter).unwrap());
    for (guard, left) in second.zip(["2", "1", ""]) {
        browser.until(&waits(left));
        drop(guard);
    }
}

#[test]
fn the_page_works_by_keyboard_alone_and_releases_a_hold() {
    let (server, runtime) = (RedisServer::start(), runtime());
    let client = runtime.block_on(builder("orders").connect(&server.url())).unwrap();
    let hold = |name: &str| runtime.block_on(client.lock(name).lock()).unwrap();
    let guards = [hold("a"), hold("b"), hold("c")];
    let dashboard = Dashboard::start(&server, &["--allow-release"]);
    let mut browser = Browser::start();
    browser.open(&dashboard.url);
    browser.until("document.querySelectorAll('#locks tbody tr').length === 3");
    browser.press("s");
    browser.press("s");
    browser.until("document.querySelector('th[aria-sort]')?.dataset.sort === 'name'");
    let focused = "document.activeElement.cells?.[0].textContent";
    browser.press("j");
    browser.press("j");
    assert_eq!(browser.eval(focused), json!("b"));
    browser.press("G");
    assert_eq!(browser.eval(focused), json!("c"));
    browser.press("k");
    browser.until("document.activeElement.cells?.[0].textContent === 'b'");
    browser.press("Enter");
    browser.until("document.querySelector('#detail[open] pre')?.textContent.includes('owner')");
    browser.picture("detail.png");
    browser.until("document.getElementById('release').hidden === false");
    browser.eval("document.getElementById('release-name').focus()");
    browser.type_text("c");
    assert_eq!(
        browser.eval("document.getElementById('release-button').disabled"),
        json!(true),
        "not its name"
    );
    browser.press("Escape");
    browser.until("document.querySelector('dialog[open]') === null");
    browser.until("document.activeElement.cells?.[0].textContent === 'b'");
    browser.press("Enter");
    browser.until("document.querySelector('#detail[open] pre') !== null");
    browser.eval("document.getElementById('release-name').focus()");
    browser.type_text("b");
    browser.press("Enter");
    browser.until("document.getElementById('detail-status').textContent.length > 0");
    browser.picture("released.png");
    assert_eq!(server.cli(&["EXISTS", "a", "b", "c"]), "2");
    browser.press("Escape");
    browser.until("document.querySelectorAll('#locks tbody tr').length === 2");
    let lost =
        runtime.block_on(async { tokio::time::timeout(Duration::from_secs(20), guards[1].lost()).await });
    assert!(lost.is_ok(), "the holder notices");
    browser.press("/");
    browser.type_text("nothing");
    browser.until("document.querySelectorAll('#locks tbody tr').length === 0");
    browser.press("Escape");
    browser.press("?");
    browser.until("document.querySelector('#help[open]') !== null");
}

#[test]
fn hostile_names_and_notes_stay_texts() {
    let (server, runtime) = (RedisServer::start(), runtime());
    let client = runtime.block_on(builder("<b>orders</b>").connect(&server.url())).unwrap();
    let names =
        ["<img src=x onerror=pwned=1>", "\"><script>pwned=1</script>", "javascript:pwned=1//'\\\u{202e}"];
    let guards: Vec<_> = names
        .iter()
        .map(|name| runtime.block_on(client.lock(*name).note("<svg onload=pwned=1>").lock()).unwrap())
        .collect();
    let dashboard = Dashboard::start(&server, &[]);
    let mut browser = Browser::start();
    browser.open(&dashboard.url);
    for name in names {
        browser.until(&row_says(name, "<svg onload=pwned=1>"));
        browser.eval(&format!(
            "[...document.querySelectorAll('#locks tbody tr')].find((row) => row.cells[0].textContent === {}).click()",
            json!(name)
        ));
        browser.until("document.querySelector('#detail[open] pre') !== null");
        browser.press("Escape");
        browser.until("document.querySelector('dialog[open]') === null");
    }
    assert_eq!(browser.eval("document.querySelectorAll('img, svg, b, body script').length"), json!(0));
    assert_eq!(browser.eval("typeof pwned"), json!("undefined"));
    browser.picture("hostile.png");
    drop(guards);
}

#[test]
fn a_wrong_token_shows_nothing() {
    let server = RedisServer::start();
    let dashboard = Dashboard::start(&server, &[]);
    let mut browser = Browser::start();
    browser.open(&dashboard.url.replace("#token=", "#token=0"));
    browser.until("document.getElementById('link').textContent.includes('the token is wrong')");
    assert_eq!(browser.eval("document.getElementById('server').textContent"), json!(""));
}

#[test]
fn ten_thousand_locks_are_shown_in_parts() {
    const LOCKS: usize = 10_000;
    let (server, runtime) = (RedisServer::start(), runtime());
    let [holder, waiter] = ["holder", "waiter"]
        .map(|name| runtime.block_on(Client::builder().client_name(name).connect(&server.url())).unwrap());
    let guards: Vec<_> = runtime.block_on(async {
        let locks = (0..LOCKS).map(|number| holder.lock(format!("order:{number}")));
        futures_util::future::join_all(locks.map(|lock| async move { lock.lock().await.unwrap() })).await
    });
    let waiting: Vec<_> =
        (0..LOCKS).map(|number| wait_for(&runtime, &waiter, &format!("order:{number}"))).collect();
    let dashboard = Dashboard::start(&server, &[]);
    let mut browser = Browser::start();
    browser.open(&dashboard.url);
    browser.until(
        "document.getElementById('summary').textContent.startsWith('10,000 locks held, 10,000 waited for')",
    );
    assert_eq!(browser.eval("document.querySelectorAll('#locks tbody tr').length"), json!(500));
    browser.eval("document.getElementById('more').click()");
    browser.until("document.querySelectorAll('#locks tbody tr').length === 1000");
    browser.press("/");
    browser.type_text("order:9999");
    browser.until("document.querySelectorAll('#locks tbody tr').length === 1");
    browser.picture("ten-thousand.png");
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    drop(guards);
}
