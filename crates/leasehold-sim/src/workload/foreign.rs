//! A foreign client, which works directly on the wire. It handles a lock's keys and channels as Redisson does, and a
//! plain lock as the Redis documentation describes it, without messages. Some of its plain locks have no expiry, and
//! some foreign clients take a plain lock again that they have lost.
//!
//! Invariant: the client believes that it holds a lock only while the server certainly keeps it, so a breach of
//! exclusion is our fault.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::Verb;
use leasehold_store::embedded::Frame;

use crate::environment::Env;
use crate::history::Event;
use crate::owner::Wire;
use crate::primitive::{Primitive, name_of};

const ACQUIRE: &str = include_str!("../../foreign/acquire.lua");
const RENEW: &str = include_str!("../../foreign/renew.lua");
const RELEASE: &str = include_str!("../../foreign/release.lua");
const PLAIN_RENEW: &str = include_str!("../../foreign/plain_renew.lua");
const PLAIN_RELEASE: &str = include_str!("../../foreign/plain_release.lua");

/// The index of the owner among the arguments of its scripts.
pub(crate) const OWNER_ARG: usize = 1;
/// The longest pause between two attempts.
const TRY_AGAIN_WITHIN: Duration = Duration::from_millis(500);

/// Returns the verb of a script of the foreign client.
pub(crate) fn verb_of(script: &[u8]) -> Option<Verb> {
    let known = [
        (ACQUIRE, Verb::Acquire),
        (RENEW, Verb::Renew),
        (RELEASE, Verb::Release),
        (PLAIN_RENEW, Verb::Renew),
        (PLAIN_RELEASE, Verb::Release),
    ];
    known.into_iter().find(|(text, _)| text.as_bytes() == script).map(|(_, verb)| verb)
}

/// Runs a foreign client.
pub(crate) async fn live(mut env: Env) {
    let client = env.rng.u128(..);
    let mut thread = 1;
    let knows = |name: &&Arc<str>| {
        let primitive = Primitive::of(name);
        primitive.is_plain() || matches!(primitive, Primitive::Lock | Primitive::Election)
    };
    let names: Vec<Arc<str>> = env.plan.names.iter().filter(knows).cloned().collect();
    while env.now() < env.plan.stop_at {
        let think = env.plan.think_max;
        env.nap(think).await;
        let Some(name) = env.rng.choice(&names).cloned() else { return };
        let lease = *env.rng.choice(&env.plan.leases).expect("there are leases");
        let give_up = env.now() + env.some_of(lease * 2);
        let wire = format!("{client:032x}:{thread}").into();
        let is_plain = Primitive::of(&name).is_plain();
        // A request of unknown outcome that arrives late leaves a lock that nobody frees.
        let is_calm = env.plan.faults.is_empty() || env.now() > env.plan.quiesce_at + env.plan.timeout;
        let is_endless = is_plain && is_calm && env.rng.u8(0..3) == 0;
        let mut foreigner =
            Foreigner { env: &mut env, name, wire, lease, is_plain, is_endless, lacks_reply: false };
        if foreigner.acquire(give_up).await {
            foreigner.hold().await;
        }
        // A late release of a thread may end a newer hold of the same thread.
        thread += u64::from(foreigner.lacks_reply);
    }
}

struct Foreigner<'a> {
    env: &'a mut Env,
    name: Arc<str>,
    wire: Wire,
    lease: Duration,
    is_plain: bool,
    /// True if its holds have no expiry.
    is_endless: bool,
    /// True once a command had no reply.
    lacks_reply: bool,
}

impl Foreigner<'_> {
    /// Tries until the lock is granted or the client gives up. Without a reply the client cannot know the outcome, so it
    /// releases.
    async fn acquire(&mut self, give_up: Duration) -> bool {
        while self.env.now() < give_up {
            let sent_at = self.env.now();
            let granted = if self.is_plain { Frame::ok() } else { Frame::Nil };
            match self.take().await {
                Some(reply) if reply == granted => {
                    self.believe(sent_at);
                    return true;
                }
                Some(_) => self.env.nap(TRY_AGAIN_WITHIN.min(self.lease)).await,
                None => {
                    self.release().await;
                    return false;
                }
            }
        }
        false
    }

    async fn take(&mut self) -> Option<Frame> {
        if !self.is_plain {
            return self.run(ACQUIRE, None).await;
        }
        let lease = self.lease.as_millis().to_string();
        let mut command: Vec<Vec<u8>> = ["SET", &*self.name, &*self.wire, "NX"].map(Into::into).into();
        if !self.is_endless {
            command.extend(["PX", &*lease].map(Into::into));
        }
        self.send(command).await
    }

    /// Holds for a while, with a watchdog.
    async fn hold(&mut self) {
        let until = self.env.now() + self.env.some_of(self.lease * 2);
        let recreates = self.is_plain && self.env.rng.bool();
        while self.env.now() < until {
            let nap = (self.lease / 3).min(until.saturating_sub(self.env.now()));
            self.env.environment.sleep(nap).await;
            if self.is_endless {
                continue;
            }
            let sent_at = self.env.now();
            match self.run(if self.is_plain { PLAIN_RENEW } else { RENEW }, None).await {
                Some(Frame::Int(1)) => self.believe(sent_at),
                Some(Frame::Int(0)) if self.is_plain && recreates => {
                    let sent_at = self.env.now();
                    match self.take().await {
                        Some(reply) if reply == Frame::ok() => self.believe(sent_at),
                        _ => break,
                    }
                }
                _ => break,
            }
        }
        let end = Event::ForeignEnd { name: Arc::clone(&self.name), wire: Arc::clone(&self.wire) };
        self.env.record(end);
        self.release().await;
    }

    fn believe(&self, sent_at: Duration) {
        let until = match self.is_endless {
            true => Duration::MAX,
            false => sent_at + self.lease.mul_f64(0.985).saturating_sub(Duration::from_millis(2)),
        };
        if until > self.env.now() {
            let (name, wire) = (Arc::clone(&self.name), Arc::clone(&self.wire));
            self.env.record(Event::ForeignHold { name, wire, until });
        }
    }

    /// Releases until the server reports that it holds nothing, or that the lock is free.
    async fn release(&mut self) {
        if self.is_plain {
            // An endless lock ends with its release alone.
            for attempt in 0.. {
                match self.run(PLAIN_RELEASE, None).await {
                    Some(Frame::Int(_)) => return,
                    _ if attempt >= 10 && !self.is_endless => return,
                    _ => self.env.nap(TRY_AGAIN_WITHIN).await,
                }
            }
        }
        let channel = name_of(&self.name).prefixed("redisson_lock__channel").to_string();
        for _ in 0..10 {
            match self.run(RELEASE, Some(&channel)).await {
                Some(Frame::Nil | Frame::Int(1..)) => return,
                _ => self.env.nap(TRY_AGAIN_WITHIN).await,
            }
        }
    }

    async fn run(&mut self, script: &str, channel: Option<&str>) -> Option<Frame> {
        let lease = self.lease.as_millis().to_string();
        let mut command: Vec<Vec<u8>> =
            ["EVAL", script, "1", &*self.name, &*lease, &*self.wire].map(Into::into).into();
        command.extend(channel.map(Into::into));
        self.send(command).await
    }

    async fn send(&mut self, command: Vec<Vec<u8>>) -> Option<Frame> {
        let reply = self.env.environment.command(self.env.process, command).await;
        self.lacks_reply |= reply.is_none();
        reply
    }
}
