//! The line protocol of the Rust peers. `interop/plain/README.md` describes it.

use std::collections::HashMap;
use std::env;
use std::fmt;
use std::io::{BufRead, Write, stdin, stdout};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

const NO_LOCK: &str = "no such lock is held here";

/// The answers that a library gives besides success.
#[derive(Debug)]
pub enum Answer {
    /// The library reports that the lock is not held, or no longer.
    NotOwned,
    /// The library has no such call.
    Unsupported,
}

impl fmt::Display for Answer {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(match self {
            Self::NotOwned => "not-owned",
            Self::Unsupported => "unsupported",
        })
    }
}

impl std::error::Error for Answer {}

/// A library. No method imitates what the library itself does not offer.
#[allow(async_fn_in_trait, reason = "one task runs it")]
pub trait Library: Sized {
    /// A held lock.
    type Lock;
    /// True if the library has a call that extends a lock.
    const EXTENDS: bool = true;

    /// Connects to a server.
    async fn connect(url: &str) -> Result<Self>;
    /// Acquires a lock. A lock that is held elsewhere is awaited, or `None`.
    async fn acquire(&self, name: &str, lease: Duration, waits: bool) -> Result<Option<Self::Lock>>;
    /// Releases a lock, and returns the word of the answer.
    async fn release(&self, lock: Self::Lock) -> Result<&'static str>;
    /// Extends a lock, and keeps its value.
    async fn extend(&self, lock: &Self::Lock, lease: Duration) -> Result<()>;
}

/// Answers commands with one library, and remembers the locks that it holds.
struct Peer<L: Library> {
    library: L,
    connection: MultiplexedConnection,
    held: HashMap<String, L::Lock>,
}

impl<L: Library> Peer<L> {
    async fn acquire(&mut self, name: &str, lease: &str, waits: bool) -> Result<String> {
        let lease = milliseconds(lease)?;
        let Some(lock) = self.library.acquire(name, lease, waits).await? else {
            return Ok("busy".to_owned());
        };
        self.held.insert(name.to_owned(), lock);
        Ok("ok".to_owned())
    }

    async fn crowd(&mut self, name: &str, lease: &str, duration: &str, counter: &str) -> Result<String> {
        let end = Instant::now() + milliseconds(duration)?;
        let (mut counts, mut in_time) = (0, 0);
        while Instant::now() < end {
            let lock = self.awaited(name, lease).await?;
            in_time += u32::from(Instant::now() < end);
            let count: Option<u64> = self.connection.get(counter).await?;
            let () = self.connection.set(counter, count.unwrap_or(0) + 1).await?;
            self.library.release(lock).await?;
            counts += 1;
        }
        Ok(format!("ok {counts} {in_time}"))
    }

    async fn awaited(&self, name: &str, lease: &str) -> Result<L::Lock> {
        let lock = self.library.acquire(name, milliseconds(lease)?, true).await?;
        lock.context("the library did not wait")
    }

    async fn does(&mut self, line: &str) -> Result<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["acquire", name, lease] => self.acquire(name, lease, true).await,
            ["try", name, lease] => self.acquire(name, lease, false).await,
            ["release", name] => {
                let lock = self.held.remove(name).context(NO_LOCK)?;
                Ok(self.library.release(lock).await?.to_owned())
            }
            ["extend", name, lease] if L::EXTENDS => {
                let lock = self.held.get(name).context(NO_LOCK)?;
                self.library.extend(lock, milliseconds(lease)?).await?;
                Ok("ok".to_owned())
            }
            ["crowd", name, lease, duration, counter] => self.crowd(name, lease, duration, counter).await,
            _ => Err(Answer::Unsupported.into()),
        }
    }
}

/// Reads a duration. The Rust libraries have no locks without an expiry.
fn milliseconds(word: &str) -> Result<Duration> {
    if word == "none" {
        return Err(Answer::Unsupported.into());
    }
    Ok(Duration::from_millis(word.parse()?))
}

/// Answers each line of standard input until it ends.
#[tokio::main(flavor = "current_thread")]
pub async fn serve<L: Library>() -> Result<()> {
    let url = env::args().nth(1).context("the first argument is the URL of the server")?;
    let connection = redis::Client::open(url.as_str())?.get_multiplexed_async_connection().await?;
    let mut peer = Peer { library: L::connect(&url).await?, connection, held: HashMap::new() };
    say("ready")?;
    for line in stdin().lock().lines() {
        let answer = peer.does(&line?).await.unwrap_or_else(|error| match error.downcast::<Answer>() {
            Ok(answer) => answer.to_string(),
            Err(error) => format!("error {error:#}").replace('\n', " "),
        });
        say(&answer)?;
    }
    Ok(())
}

fn say(line: &str) -> Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}
