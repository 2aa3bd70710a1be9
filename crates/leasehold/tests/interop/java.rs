//! The process that runs the real Redisson. It reads commands and writes answers, each with its number.
//!
//! The process ends when its stdin closes, so it always ends with this program.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use std::{env, fmt, thread};

use tokio::sync::oneshot;

/// The class path of the Java program with its libraries. `cargo x interop` sets it.
const CLASS_PATH: &str = "LEASEHOLD_INTEROP_CLASS_PATH";
/// The release of Redisson on the class path.
const RELEASE: &str = "LEASEHOLD_INTEROP_RELEASE";
/// The main class.
const MAIN: &str = "leasehold.interop.Main";
/// The longest time of any answer, including answers of whole crowds, and far more than they take.
const ANSWER_WITHIN: Duration = Duration::from_secs(90);
/// The JVM starts often and runs briefly.
const ARGUMENTS: [&str; 4] = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp"];

/// Returns true if the release of Redisson is at least this release.
pub(crate) fn release_is_at_least(major: u32, minor: u32) -> bool {
    let release = env::var(RELEASE).expect("`cargo x interop` says the release");
    let mut numbers = release.split('.').map(|number| number.parse().expect("a release is made of numbers"));
    let mut next = || numbers.next().unwrap_or(0_u32);
    (next(), next()) >= (major, minor)
}

/// The result of a command.
pub(crate) type Reply = Result<String, Failure>;

type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<Reply>>>>;

/// The exception that Redisson threw.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The exception's class, without its package.
    pub(crate) class: String,
    pub(crate) message: String,
}

/// A running process.
pub(crate) struct Java {
    process: Mutex<Child>,
    commands: Mutex<ChildStdin>,
    waiting: Waiting,
    last: AtomicU64,
}

/// The future answer to a sent command.
pub(crate) struct Answer {
    command: String,
    reply: oneshot::Receiver<Reply>,
}

impl Java {
    /// The process that tests share. The first caller starts it.
    ///
    /// # Panics
    /// Without a class path, because a test that cannot run does not pass.
    pub(crate) fn shared() -> Arc<Self> {
        static SHARED: OnceLock<Arc<Java>> = OnceLock::new();
        Arc::clone(SHARED.get_or_init(Self::start))
    }

    /// Starts a process for one test, which may kill it.
    pub(crate) fn start() -> Arc<Self> {
        let class_path =
            env::var(CLASS_PATH).expect("`cargo x interop` says the class path of the Java program");
        let mut process = Command::new("java")
            .args(ARGUMENTS)
            .args([&class_path, MAIN])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("java is on PATH, as `cargo x interop` has found");
        let commands = process.stdin.take().unwrap();
        let answers = process.stdout.take().unwrap();
        let waiting = Waiting::default();
        let told = Arc::clone(&waiting);
        thread::spawn(move || deliver(answers, &told));
        Arc::new(Self { process: process.into(), commands: commands.into(), waiting, last: 0.into() })
    }

    /// Sends a command, which runs even if the caller drops the answer.
    pub(crate) fn ask(&self, command: &str) -> Answer {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (reply_sender, reply) = oneshot::channel();
        self.waiting.lock().unwrap().insert(id, reply_sender);
        // A killed process takes no commands, and the answer reports that.
        let _ = self.commands.lock().unwrap().write_all(format!("{id} {command}\n").as_bytes());
        Answer { command: command.to_owned(), reply }
    }

    /// Kills the process (SIGKILL) and waits for its end.
    pub(crate) fn kill(&self) {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        // An error means that the process has already ended.
        let _ = process.kill();
        let _ = process.wait();
    }
}

impl Drop for Java {
    fn drop(&mut self) {
        self.kill();
    }
}

impl fmt::Debug for Java {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Java")
    }
}

impl Answer {
    /// The result of the command.
    #[track_caller]
    pub(crate) fn reply(self) -> impl Future<Output = Reply> {
        let caller = std::panic::Location::caller();
        async move {
            let Self { command, reply } = self;
            match tokio::time::timeout(ANSWER_WITHIN, reply).await {
                Ok(Ok(reply)) => reply,
                Ok(Err(_)) => panic!("{caller}: the process ended before it answered `{command}`"),
                Err(_) => panic!("{caller}: no answer to `{command}` within {ANSWER_WITHIN:?}"),
            }
        }
    }

    /// The answer of a command that must not throw.
    #[track_caller]
    pub(crate) fn ok(self) -> impl Future<Output = String> {
        let caller = std::panic::Location::caller();
        async move {
            let command = self.command.clone();
            self.reply().await.unwrap_or_else(|failure| panic!("{caller}: `{command}` threw {failure:?}"))
        }
    }

    /// The exception of a command that must throw.
    #[track_caller]
    pub(crate) fn thrown(self) -> impl Future<Output = Failure> {
        let caller = std::panic::Location::caller();
        async move {
            let command = self.command.clone();
            let reply = self.reply().await;
            reply.expect_err(&format!("{caller}: `{command}` throws"))
        }
    }

    /// Returns true if the answer has not arrived.
    pub(crate) fn is_pending(&self) -> bool {
        self.reply.is_empty() && !self.reply.is_terminated()
    }
}

/// Delivers answers to their callers until the process ends.
fn deliver(answers: ChildStdout, waiting: &Waiting) {
    for line in BufReader::new(answers).lines().map_while(Result::ok) {
        let (id, reply) = parse(&line).unwrap_or_else(|| panic!("the process said {line:?}"));
        if let Some(reply_sender) = waiting.lock().unwrap().remove(&id) {
            // An error means that the caller dropped its answer.
            let _ = reply_sender.send(reply);
        }
    }
    // Dropping the senders ends the remaining calls, for which no answer comes.
    waiting.lock().unwrap().clear();
}

/// Parses `7 ok`, `7 ok value` and `7 error Class message`.
fn parse(line: &str) -> Option<(u64, Reply)> {
    let mut words = line.splitn(3, ' ');
    let (id, word, rest) = (words.next()?.parse().ok()?, words.next()?, words.next().unwrap_or_default());
    match word {
        "ok" => Some((id, Ok(rest.to_owned()))),
        "error" => {
            let (class, message) = rest.split_once(' ')?;
            Some((id, Err(Failure { class: class.to_owned(), message: plain(message) })))
        }
        _ => None,
    }
}

/// A message without its escapes.
fn plain(escaped: &str) -> String {
    let mut message = String::new();
    let mut letters = escaped.chars();
    while let Some(letter) = letters.next() {
        message.push(match letter {
            '\\' => match letters.next() {
                Some('s') => ' ',
                Some('n') => '\n',
                other => other.unwrap_or('\\'),
            },
            other => other,
        });
    }
    message
}

#[test]
fn answers_are_read_with_their_escapes_undone() {
    assert_eq!(parse("7 ok"), Some((7, Ok(String::new()))));
    assert_eq!(parse("7 ok a,b"), Some((7, Ok("a,b".to_owned()))));
    let failure = Failure { class: "Bad".to_owned(), message: "it's\\so\nlong".to_owned() };
    assert_eq!(parse(r"8 error Bad it's\\so\nlong"), Some((8, Err(failure))));
    assert_eq!(parse("hello"), None);
}
