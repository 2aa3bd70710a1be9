//! The programs of the guide page, run as they stand there, apart from the address of the server.
//!
//! Invariant: a program of the page is run, or its test fails.

#[allow(unreachable_pub, reason = "the page shows a public function")]
mod nightly;

use std::process::Stdio;

use leasehold::{Guard, ReleaseOutcome};
use tokio::process::Command;
use tokio::time::timeout;

use crate::peer::{ANSWER_WITHIN, words};
use crate::scene::Watch;
use crate::support::{connect, soon};
use leasehold_testkit::servers::RedisServer;

const PAGE: &str = include_str!("../../../../docs/guide/share-with-other-languages.md");
/// The page with the lines of Python that take the other kind of lock.
const REDISSON: &str = include_str!("../../../../docs/interop.md");
/// The Rust program of the page, which a test compiles as a module.
const NIGHTLY: &str = include_str!("guide/nightly.rs");
/// The server on the page.
const ADDRESS: &str = "127.0.0.1:6379";
/// The name of the lock on the page.
const NAME: &str = "nightly";
/// The folder of the Go peers, whose module has the packages of the page.
const GO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../interop/plain/go");

/// Returns the first program of a page in a language.
fn program(page: &str, language: &str) -> String {
    let (_, block) = page.split_once(&format!("```{language}\n")).expect("the page has the program");
    block.split("```").next().unwrap().to_owned()
}

/// Runs a program while Rust holds the lock, and releases the lock once the program waits.
async fn waits_for_rust(server: &RedisServer, guard: Guard, mut command: Command, says: &str) {
    let watch = Watch::start(server, NAME);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    let child = command.spawn().unwrap();
    watch.wait_for_waiter().await;
    assert!(guard.is_held());
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    let output = timeout(ANSWER_WITHIN, child.wait_with_output()).await.expect("the program ends").unwrap();
    assert!(output.status.success(), "{}", output.status);
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), says);
    assert_eq!(server.cli(&["EXISTS", NAME]), "0", "the program releases the lock");
}

/// Runs a program of the page beside a plain lock of Rust.
async fn shares(language: &str, says: &str, run: impl FnOnce(String) -> Command) {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let guard = client.plain_lock(NAME).lock().await.unwrap();
    let text = program(PAGE, language).replace(ADDRESS, &format!("127.0.0.1:{}", server.port()));
    waits_for_rust(&server, guard, run(text), says).await;
}

fn python(text: String) -> Command {
    let mut command = Command::new(&words("redis_py")[0]);
    command.args(["-c", &text]);
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_program_of_the_guide_shares_the_lock() {
    shares("python", "Python has it", python).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_node_program_of_the_guide_shares_the_lock() {
    shares("javascript", "Node has it", |text| {
        // Packages are found from the folder of the peers.
        let peer = words("redlock5").pop().unwrap();
        let mut command = Command::new("node");
        let folder = std::path::Path::new(&peer).parent().unwrap();
        command.args(["--input-type=module", "--eval", &text]).current_dir(folder);
        command
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_go_program_of_the_guide_shares_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    shares("go", "Go has it", |text| {
        let file = folder.path().join("main.go");
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new("go");
        command.args(["run", "-mod=readonly"]).arg(file).current_dir(GO);
        command
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_program_of_the_redisson_page_takes_the_reentrant_lock() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let guard = client.lock(NAME).lock().await.unwrap();
    let text = program(REDISSON, "python").replace(ADDRESS, &format!("127.0.0.1:{}", server.port()));
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with("print")).count();
    assert_eq!(lines, 12, "the page calls them twelve lines");
    waits_for_rust(&server, guard, python(text), "Python has it").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rust_program_of_the_guide_shares_the_lock() {
    let (_, compiled) = NIGHTLY.split_once("\n\n").unwrap();
    assert_eq!(program(PAGE, "rust"), compiled);
    let server = RedisServer::start();
    assert_eq!(server.cli(&["SET", NAME, "a-value-of-another-language", "NX", "PX", "60000"]), "OK");
    let (watch, url) = (Watch::start(&server, NAME), server.url());
    let program = tokio::spawn(async move { nightly::nightly(&url).await.unwrap() });
    watch.wait_for_waiter().await;
    assert!(!program.is_finished());
    assert_eq!(server.cli(&["DEL", NAME]), "1");
    soon("the end of the program", program).await.unwrap();
    assert_eq!(server.cli(&["EXISTS", NAME]), "0", "the program releases the lock");
}
