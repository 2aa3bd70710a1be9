//! A process of a peer, which answers each line with a line (`interop/plain/README.md`).

use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::roster::Kind;

/// The variable with a line for each peer: its name, its program and the program's arguments, between tabs.
const PROGRAMS: &str = "LEASEHOLD_PLAIN_PEERS";
/// The longest time of an answer, far more than it takes.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// A running process, killed when dropped.
pub(crate) struct Peer {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    /// Starts a peer and waits until it has used another lock. The first use of a library takes seconds in some
    /// languages, and tests measure the later ones.
    pub(crate) async fn start(kind: &Kind, url: &str) -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let mut child = command(kind).arg(url).kill_on_drop(true).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut peer = Self { child, input, lines: BufReader::new(output).lines() };
        assert_eq!(peer.answer().await, "ready", "{}", kind.name);
        let other = format!("warm-up-{}", LAST.fetch_add(1, Ordering::Relaxed));
        assert_eq!(peer.ask(&format!("acquire {other} {}", ANSWER_WITHIN.as_millis())).await, "ok");
        let _ = peer.ask(&format!("release {other}")).await;
        peer
    }

    /// Sends a command.
    pub(crate) async fn say(&mut self, command: &str) {
        self.input.write_all(format!("{command}\n").as_bytes()).await.unwrap();
        self.input.flush().await.unwrap();
    }

    /// Reads the answer to the oldest command without one.
    pub(crate) async fn answer(&mut self) -> String {
        self.answer_within(ANSWER_WITHIN).await
    }

    /// Reads the answer to a command that takes longer.
    pub(crate) async fn answer_within(&mut self, limit: Duration) -> String {
        let line = timeout(limit, self.lines.next_line()).await.expect("the peer answers in time");
        line.unwrap().expect("the peer answers before it ends")
    }

    /// Sends a command and reads its answer.
    pub(crate) async fn ask(&mut self, command: &str) -> String {
        self.say(command).await;
        self.answer().await
    }

    /// Kills the process (SIGKILL) and waits for its end.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}

fn command(kind: &Kind) -> Command {
    let words = words(kind.name);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// Returns the program of a peer and its arguments.
pub(crate) fn words(name: &str) -> Vec<String> {
    let programs = std::env::var(PROGRAMS).expect("`cargo x interop plain` says how to start the peers");
    let line = programs.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'));
    line.unwrap_or_else(|| panic!("{name} was not built")).split('\t').map(str::to_owned).collect()
}
