//! The contract of a store, one function per behavior. Every store and every decorator passes all of them.
//!
//! Invariant: a behavior uses keys that bear its name, so all behaviors can run on one server at once. A behavior that
//! is not listed does not compile.

/// Lists the behaviors of a module: their names, and a function that runs a behavior by its name.
macro_rules! behaviors {
    ($($behavior:ident,)*) => {
        /// The names of all behaviors.
        pub const NAMES: &[&str] = &[$(stringify!($behavior)),*];

        /// Runs one behavior.
        ///
        /// # Panics
        /// Panics if the store behaves differently, or no behavior has this name.
        pub async fn run<S: leasehold_store::Store, A: $crate::contract::Admin>(name: &str, store: &S, admin: &A) {
            let harness = $crate::contract::Harness::new(name, store, admin);
            match name {
                $(stringify!($behavior) => $behavior(&harness).await,)*
                _ => panic!("there is no behavior {name:?}"),
            }
        }
    };
}

pub mod adoption;
mod counters;
pub mod election;
pub mod expirable;
pub mod fair;
pub mod fleet;
pub mod keep_alive;
pub mod latch;
mod lock_harness;
pub mod locks;
pub mod plain;
pub mod read_write;
pub mod reentrant;
pub mod semaphore;
pub mod store;

use std::pin::Pin;
use std::time::{Duration, Instant};

use leasehold_proto::recipe::reentrant::SCRIPTS;
use leasehold_proto::{Call, Channel, Reply, Script, StoreError, Verb};
use leasehold_store::{Heard, Store, Subscription};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A limit that only a broken store exceeds.
const LIMIT: Duration = Duration::from_secs(20);

/// Direct access to the server, beside the store.
pub trait Admin {
    /// Executes a command and returns its reply as text: a number or a string as it is, nil as an empty text, the
    /// elements of an array in lines, an error as its text.
    fn run_command(&self, words: &[&str]) -> String;
}

impl Admin for crate::servers::RedisServer {
    fn run_command(&self, words: &[&str]) -> String {
        self.cli(words)
    }
}

/// A store with an admin, and the names that one behavior uses.
struct Harness<'a> {
    store: &'a dyn AnyStore,
    admin: &'a dyn Admin,
    lock: String,
}

/// The answer to a call.
type Answer = Pin<Box<dyn Future<Output = Result<Reply, StoreError>> + Send>>;

/// A store of any type, so the behaviors are compiled once.
trait AnyStore {
    fn run(&self, call: Call) -> Answer;

    fn subscribe(&self, channel: Channel, heard: UnboundedSender<Heard>) -> Subscription;
}

impl<S: Store> AnyStore for S {
    fn run(&self, call: Call) -> Answer {
        Box::pin(Store::run(self, call, LIMIT))
    }

    fn subscribe(&self, channel: Channel, heard: UnboundedSender<Heard>) -> Subscription {
        Store::subscribe(self, channel, heard)
    }
}

impl<'a> Harness<'a> {
    fn new(behavior: &str, store: &'a dyn AnyStore, admin: &'a dyn Admin) -> Self {
        Self { store, admin, lock: format!("{{contract:{behavior}}}") }
    }

    fn channel(&self) -> Channel {
        Channel::new(&format!("redisson_lock__channel:{}", self.lock))
    }

    fn run_command(&self, words: &[&str]) -> String {
        self.admin.run_command(words)
    }

    async fn run(&self, call: Call) -> Result<Reply, StoreError> {
        self.store.run(call).await
    }

    /// Runs a call that must not fail.
    async fn execute(&self, call: Call) -> Reply {
        self.run(call).await.expect("the call succeeds")
    }

    fn call(&self, verb: Verb) -> Call {
        let script =
            SCRIPTS.into_iter().find(|script| script.verb == verb).expect("there is a script for this verb");
        Call::of(script).key("lock", self.lock.as_str())
    }

    fn acquire(&self, owner: &str, lease_ms: &str) -> Call {
        self.call(Verb::Acquire).arg("lease_ms", lease_ms).arg("owner", owner)
    }

    fn renew(&self, owner: &str, lease_ms: &str, count: &str) -> Call {
        self.call(Verb::Renew).arg("lease_ms", lease_ms).arg("owner", owner).arg("count", count)
    }

    /// Returns the call of a hold that passes on, which counts the listeners by this subcommand of PUBSUB.
    fn hand_off(&self, owner: &str, lease_ms: &str, numsub: &str) -> Call {
        let call = self.call(Verb::HandOff).arg("lease_ms", lease_ms).arg("owner", owner);
        call.arg("numsub", numsub).arg("channel", self.channel())
    }

    fn release(&self, owner: &str, remaining: &str) -> Call {
        let call = self.call(Verb::Release).arg("owner", owner).arg("remaining", remaining);
        call.arg("publish", "PUBLISH").arg("channel", self.channel()).arg("message", "0")
    }

    fn force_release(&self) -> Call {
        let call = self.call(Verb::ForceRelease).arg("publish", "PUBLISH");
        call.arg("channel", self.channel()).arg("message", "0")
    }

    fn inspect(&self, owner: &str) -> Call {
        self.call(Verb::Inspect).arg("owner", owner)
    }

    /// Subscribes to the lock's channel, and waits for the server's confirmation.
    async fn listen(&self) -> (Subscription, UnboundedReceiver<Heard>) {
        let (sender, mut heard) = unbounded_channel();
        let subscription = self.store.subscribe(self.channel(), sender);
        assert_eq!(next(&mut heard).await, Heard::Listening(self.channel()));
        (subscription, heard)
    }

    /// Returns the number of subscribers that the server counts on the lock's channel.
    fn listeners(&self) -> String {
        let answer = self.run_command(&["PUBSUB", "NUMSUB", &self.channel().to_string()]);
        answer.lines().last().unwrap_or_default().to_owned()
    }
}

/// Runs a call behind these lines of Lua, which find the server's time in `now_ms`. Returns that time, or `None` if
/// the clock moved on before the call had ended.
async fn timed(harness: &Harness<'_>, call: &Call, first: &str) -> Option<i64> {
    let source = format!(
        "local function clock_ms()
  local time = redis.call('time')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local now_ms = clock_ms()
{first}
local function body()
{}
end
body()
return {{ now_ms, clock_ms() }}",
        call.script().source()
    );
    // A call's script must be static.
    let script = Box::leak(Box::new(Script::new(call.verb(), Box::leak(source.into_boxed_str()))));
    let timed = Call::with(script, call.keys(), call.args());
    match harness.execute(timed).await {
        Reply::Array(times) => match times[..] {
            [Reply::Int(began), Reply::Int(ended)] => (began == ended).then_some(began),
            _ => panic!("these are no two times: {times:?}"),
        },
        other => panic!("these are no times: {other:?}"),
    }
}

/// Returns the next event on the channel.
async fn next(heard: &mut UnboundedReceiver<Heard>) -> Heard {
    tokio::time::timeout(LIMIT, heard.recv())
        .await
        .expect("something is heard in time")
        .expect("the store listens")
}

/// Repeats a request until it gives an answer.
async fn until<T>(what: &str, mut execute: impl AsyncFnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = execute().await {
            return answer;
        }
        assert!(started.elapsed() < LIMIT, "waited in vain for {what}");
        tokio::task::yield_now().await;
    }
}
