//! A task of a worker: it acquires, holds and releases, and writes what it does before it does it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use leasehold::lock::Tokens;
use leasehold::{Client, ClientBuilder, FencedWriteError, QuorumLock, Redlock, Tls};

use crate::clock::now;
use crate::event::{Event, Record};
use crate::hold::Hold;
use crate::kept::{fields, kept_by};
use crate::policy::{Kind, PERMITS, PREFIX, Policy, on_server};

/// The time limit of a call.
const TIMEOUT: Duration = Duration::from_millis(1000);
/// The time limit of a call to one of several independent servers.
const NODE_TIMEOUT: Duration = Duration::from_millis(300);
/// The longest wait of an attempt.
const WAIT: Duration = Duration::from_secs(3);
/// The pause between two looks at a guard.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The pause after an error, so that a fleet without a master is not flooded with attempts.
const PAUSE: Duration = Duration::from_millis(20);
/// The pause between two probes of one worker.
const PROBE_EVERY: Duration = Duration::from_millis(60);
/// The names of each policy.
const NAMES: u32 = 16;

/// The arguments of a worker.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The address of the fleet, or one for each independent server.
    #[arg(long, required = true)]
    url: Vec<String>,
    /// The policies, as JSON.
    #[arg(long)]
    pub(crate) policies: String,
    /// The number of replicas of each master.
    #[arg(long)]
    replicas: u32,
    /// The lease of each hold in milliseconds.
    #[arg(long)]
    lease_ms: u64,
    /// The plain port of each data node, to ask for a hold around the library.
    #[arg(long)]
    node: Vec<u16>,
    /// The file of the authority that issued the certificates of the servers.
    #[arg(long)]
    ca_file: Option<PathBuf>,
    /// The server that checks tokens.
    #[arg(long)]
    pub(crate) resource: String,
    /// The file of the log.
    #[arg(long)]
    log: PathBuf,
}

/// The log, and the numbers of the attempts.
#[derive(Debug)]
pub(crate) struct Journal {
    file: Mutex<File>,
    attempts: AtomicU64,
    ends: AtomicBool,
}

impl Journal {
    /// Lets all tasks end.
    pub(crate) fn end(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }

    fn begin(&self) -> u64 {
        self.attempts.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn ends(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    /// Writes a line in one call, so that a killed worker leaves whole lines.
    fn write(&self, at: u64, attempt: u64, event: Event) {
        let mut line = serde_json::to_string(&Record { at, attempt, event }).expect("a record is valid JSON");
        line.push('\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line.as_bytes()).expect("the log can be written");
    }
}

/// A source of holds of one policy.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    Client(Client),
    Quorum(Redlock),
}

/// The terms of a hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stay {
    /// The longest time of the hold in milliseconds.
    pub(crate) ms: u64,
    /// The lease, if no watchdog renews the hold.
    pub(crate) lease: Option<Duration>,
}

impl Source {
    pub(crate) async fn close(self) {
        match self {
            Self::Client(client) => {
                client.close().await;
            }
            Self::Quorum(redlock) => redlock.close().await,
        }
    }
}

impl Options {
    pub(crate) fn journal(&self) -> Result<Journal> {
        let file = OpenOptions::new().create(true).append(true).open(&self.log).context("no log")?;
        Ok(Journal { file: Mutex::new(file), attempts: AtomicU64::new(0), ends: AtomicBool::new(false) })
    }

    pub(crate) const fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    fn builder(&self, lease: Duration) -> ClientBuilder {
        // A connect that a busy machine delays is no reason to end.
        let builder = Client::builder().watchdog(lease).lazy();
        match &self.ca_file {
            Some(file) => builder.tls(Tls::new().ca_file(file)),
            None => builder,
        }
    }
}

pub(crate) async fn connect(options: &Options, policy: Policy, lease: Duration) -> Result<Source> {
    if policy == Policy::Quorum {
        let builder = options.builder(lease).timeout(NODE_TIMEOUT);
        let mut clients = Vec::new();
        for url in &options.url {
            clients.push(builder.clone().connect(url).await?);
        }
        return Ok(Source::Quorum(Redlock::builder().longest_lease(lease).over(clients)));
    }
    let mut builder = options.builder(lease).timeout(TIMEOUT).on_missing(policy.on_missing());
    if let Some(confirm) = policy.confirm(options.replicas) {
        builder = builder.replicas(confirm);
    }
    Ok(Source::Client(builder.connect(&options.url[0]).await?))
}

/// A task of one policy.
pub(crate) struct User {
    policy: Policy,
    kind: Kind,
    source: Source,
    resource: Client,
    nodes: Vec<u16>,
    lease: Duration,
    probes: AtomicU64,
}

impl User {
    pub(crate) fn new(
        options: &Options,
        (policy, kind): (Policy, Kind),
        source: Source,
        resource: Client,
    ) -> Self {
        let (nodes, lease) = (options.node.clone(), options.lease());
        Self { policy, kind, source, resource, nodes, lease, probes: AtomicU64::new(0) }
    }

    /// Acquires, holds and releases once, for a random time.
    pub(crate) async fn section(&self, journal: &Journal) {
        let ms = match self.kind {
            Kind::Probe => 0,
            _ if fastrand::u8(..10) < 6 => fastrand::u64(1..60),
            // Longer than a failover, so that both holders of a lock granted twice are seen.
            _ => fastrand::u64(2000..6000),
        };
        if self.enter(journal, self.name(), Stay { ms, lease: None }).await && self.kind == Kind::Probe {
            tokio::time::sleep(PROBE_EVERY).await;
        }
    }

    /// Acquires, holds and releases a name once. Returns true if it was granted.
    pub(crate) async fn enter(&self, journal: &Journal, name: String, stay: Stay) -> bool {
        let attempt = journal.begin();
        let wait = u64::try_from(WAIT.as_micros()).unwrap_or(u64::MAX);
        let (policy, kind) = (self.policy, self.kind);
        journal.write(now(), attempt, Event::Attempt { policy, kind, name: name.clone(), wait });
        let outcome = self.acquire(&name, stay.lease).await;
        let at = now();
        match outcome {
            Ok(Some(hold)) => {
                let token = hold.token();
                let remaining = u64::try_from(hold.remaining().as_micros()).unwrap_or(u64::MAX);
                journal.write(
                    at,
                    attempt,
                    Event::Granted { valid_until: at.saturating_add(remaining), token },
                );
                self.hold(journal, (attempt, &name), hold, stay.ms).await;
                return true;
            }
            Ok(None) => journal.write(at, attempt, Event::Refused),
            Err(error) => {
                journal.write(at, attempt, Event::Failed { error });
                tokio::time::sleep(PAUSE).await;
            }
        }
        false
    }

    fn name(&self) -> String {
        let number = match self.kind {
            Kind::Semaphore => "0".to_owned(),
            // A name of its own each time, which no release that a failover lost can block. The letter keeps it in the
            // slot that most names share.
            Kind::Probe => {
                format!("{}:{}p", std::process::id(), self.probes.fetch_add(1, Ordering::Relaxed))
            }
            Kind::Lock | Kind::Fenced => fastrand::u32(..NAMES).to_string(),
        };
        format!("{PREFIX}{}:{:?}:{number}", self.policy.name(), self.kind).to_lowercase()
    }

    async fn acquire(&self, name: &str, lease: Option<Duration>) -> Result<Option<Hold>, String> {
        let name = on_server(name);
        let client = match &self.source {
            Source::Client(client) => client,
            Source::Quorum(redlock) => return acquire_majority(&redlock.lock(name), self.lease).await,
        };
        match self.kind {
            Kind::Lock | Kind::Probe => {
                let lock = client.lock(name);
                let lock = if let Some(lease) = lease { lock.lease(lease) } else { lock };
                held(lock.try_lock_for(WAIT).await, Hold::Plain)
            }
            Kind::Fenced => {
                let lock = client.fenced_lock(name).tokens(Tokens::Hybrid);
                let lock = if let Some(lease) = lease { lock.lease(lease) } else { lock };
                held(lock.try_lock_for(WAIT).await, Hold::Fenced)
            }
            Kind::Semaphore => {
                let semaphore = client.expirable_semaphore(name);
                // A failover can lose the number too.
                semaphore.try_set_permits(PERMITS).await.map_err(|error| error.to_string())?;
                held(semaphore.try_acquire_for(WAIT).await, Hold::Permit)
            }
        }
    }

    /// Holds for this time or until the hold is lost, and releases.
    async fn hold(&self, journal: &Journal, (attempt, name): (u64, &str), hold: Hold, ms: u64) {
        let until = now() + ms * 1000;
        let mut seen = now();
        let is_long = ms >= 1000;
        let fields = if is_long { self.fields(name, &hold).await } else { Vec::new() };
        if self.kind == Kind::Fenced {
            self.write(journal, attempt, name, &hold).await;
        }
        loop {
            let before = now();
            if hold.is_held() {
                seen = before;
            }
            if before >= until || journal.ends() {
                break;
            }
            tokio::select! {
                reason = hold.lost() => {
                    let (at, still_valid) = (now(), hold.is_held());
                    let kept_by = self.kept_by(name, fields).await;
                    journal.write(at, attempt, Event::Lost { seen, reason, still_valid, kept_by });
                    break;
                }
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
        if self.kind == Kind::Fenced {
            // A holder that does not look at its guard before it writes. Only the token protects the resource.
            self.write(journal, attempt, name, &hold).await;
        }
        journal.write(now(), attempt, Event::Releasing { seen });
        let outcome = hold.release().await;
        journal.write(now(), attempt, Event::Released { outcome });
    }

    /// Returns the fields of a hold on the servers.
    async fn fields(&self, name: &str, hold: &Hold) -> Vec<String> {
        if self.policy != Policy::Quorum {
            return hold.field().into_iter().collect();
        }
        // Each server of a majority has a field of its own, and no other holder while this hold is valid.
        let (nodes, key) = (self.nodes.clone(), on_server(name));
        let asked = tokio::task::spawn_blocking(move || fields(&nodes, key.as_str()));
        asked.await.unwrap_or_default()
    }

    /// Returns the servers that still have a hold, before it is released.
    async fn kept_by(&self, name: &str, fields: Vec<String>) -> Vec<u16> {
        let (nodes, key) = (self.nodes.clone(), on_server(name));
        let ask = move || {
            let mut ports: Vec<u16> =
                fields.iter().flat_map(|field| kept_by(&nodes, key.as_str(), field)).collect();
            ports.sort_unstable();
            ports.dedup();
            ports
        };
        tokio::task::spawn_blocking(ask).await.unwrap_or_default()
    }

    async fn write(&self, journal: &Journal, attempt: u64, name: &str, hold: &Hold) {
        let Some(token) = hold.token() else { return };
        let sent = now();
        let outcome =
            self.resource.fenced(token).set(format!("resource:{name}").as_str(), token.to_string()).await;
        let accepted = match outcome {
            Ok(()) => true,
            Err(FencedWriteError::Stale { .. }) => false,
            // An unknown write proves nothing.
            Err(_) => return,
        };
        journal.write(now(), attempt, Event::Write { sent, accepted });
    }
}

async fn acquire_majority(lock: &QuorumLock, lease: Duration) -> Result<Option<Hold>, String> {
    held(lock.clone().watchdog(lease).try_lock_for(WAIT).await, Hold::Quorum)
}

fn held<G, E: std::fmt::Display>(
    outcome: Result<Option<G>, E>,
    hold: impl FnOnce(G) -> Hold,
) -> Result<Option<Hold>, String> {
    outcome.map(|guard| guard.map(hold)).map_err(|error| error.to_string())
}
