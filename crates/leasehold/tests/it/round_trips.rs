//! The cost of an acquire and its release on the server, for each primitive, counted by the server itself.
//!
//! The table of `docs/results/round-trips.md` comes from
//! `cargo test -p leasehold --all-features --test it round_trips:: -- --nocapture`.

use std::collections::BTreeMap;

use leasehold::{Client, MultiLock, Name, Redlock};
use leasehold_testkit::servers::RedisServer;

use crate::support::{connect, eventually, soon};

/// The commands that the server executed since its statistics were reset.
struct Cost {
    /// Script calls, each of which is one round trip.
    scripts: u64,
    /// Commands that the scripts called.
    inside: u64,
    /// Other commands of the clients.
    others: BTreeMap<String, u64>,
}

/// Commands that this test itself sends to inspect the server.
const LOOKS: [&str; 4] = ["info", "config|resetstat", "command", "pubsub|numsub"];
/// Commands that come with connections and subscriptions.
const CHANNELS: [&str; 2] = ["subscribe", "unsubscribe"];

fn cost(server: &RedisServer) -> Cost {
    let stats = server.commandstats();
    let of = |name: &str| stats.get(name).copied().unwrap_or_default();
    let scripts = of("eval") + of("evalsha");
    let outside = |name: &str| {
        LOOKS.contains(&name)
            || CHANNELS.contains(&name)
            || ["eval", "evalsha", "hello", "ping"].contains(&name)
    };
    let inside = stats.iter().filter(|(name, _)| !outside(name)).map(|(_, calls)| calls).sum();
    let others = CHANNELS.iter().map(|name| ((*name).to_owned(), of(name))).filter(|(_, calls)| *calls > 0);
    Cost { scripts, inside, others: others.collect() }
}

/// Prints the cost of `acquire` and of `release`, and checks that each was one round trip.
async fn one_each<G>(
    server: &RedisServer,
    what: &str,
    mut acquire: impl AsyncFnMut() -> G,
    mut release: impl AsyncFnMut(G),
) {
    // The client sends a script's text once, and later its digest.
    let guard = acquire().await;
    release(guard).await;
    server.reset_stats();
    let guard = acquire().await;
    let taken = cost(server);
    server.reset_stats();
    release(guard).await;
    let given_back = cost(server);
    println!(
        "| {what} | {} | {} | {} | {} |",
        taken.scripts, taken.inside, given_back.scripts, given_back.inside
    );
    assert_eq!((taken.scripts, given_back.scripts), (1, 1), "{what}");
    assert!(taken.others.is_empty() && given_back.others.is_empty(), "{what} subscribes to nothing");
}

/// The kinds of one lock.
async fn locks(server: &RedisServer, client: &Client) {
    macro_rules! lock {
        ($what:literal, $lock:expr) => {{
            let lock = $lock;
            let release = async |guard| {
                let guard: leasehold::Guard = guard;
                guard.release().await.unwrap();
            };
            one_each(server, $what, async || lock.lock().await.unwrap().into(), release).await;
        }};
    }
    lock!("`lock`", client.lock("plain"));
    lock!("`lock`, non-reentrant", client.lock("plain").non_reentrant());
    lock!("`fair_lock`", client.fair_lock("fair"));
    lock!("`fenced_lock`", client.fenced_lock("fenced"));
    lock!("`spin_lock`", client.spin_lock("spin"));
    lock!("`rw_lock`, read", client.rw_lock("rw").read_lock());
    lock!("`rw_lock`, write", client.rw_lock("rw").write_lock());
}

#[tokio::test]
async fn an_uncontended_acquire_and_its_release_are_one_round_trip_each_of_every_primitive() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    println!(
        "| primitive | round trips to acquire | commands in it | round trips to release | commands in it |"
    );
    println!("|---|---|---|---|---|");
    locks(&server, &client).await;

    let pair = ["1", "2"].map(|rest| client.lock(Name::with_hash_tag("pair", rest).unwrap()).into());
    let set = MultiLock::of(pair);
    let (acquire, release) = (
        async || set.lock().await.unwrap(),
        async |guard: leasehold::MultiGuard| drop(guard.release().await),
    );
    one_each(&server, "`MultiLock` of two in one slot", acquire, release).await;

    let semaphore = client.semaphore("semaphore");
    semaphore.try_set_permits(5).await.unwrap();
    let release = async |guard: leasehold::Guard| drop(guard.release().await);
    one_each(&server, "`semaphore`", async || semaphore.acquire().await.unwrap(), release).await;
    let fifo = client.semaphore("fifo").fifo();
    fifo.try_set_permits(5).await.unwrap();
    one_each(&server, "`semaphore`, fifo", async || fifo.acquire().await.unwrap(), release).await;
    let expirable = client.expirable_semaphore("expirable");
    expirable.try_set_permits(5).await.unwrap();
    let release = async |permits: leasehold::Permits| drop(permits.release().await);
    one_each(&server, "`expirable_semaphore`", async || expirable.acquire().await.unwrap(), release).await;
    let many = async || expirable.acquire_many(3).await.unwrap();
    one_each(&server, "`expirable_semaphore`, 3 permits", many, release).await;

    let latch = client.count_down_latch("latch");
    let count_down = async |()| assert_eq!(latch.count_down().await.unwrap(), 0);
    one_each(
        &server,
        "`count_down_latch`: `try_set_count`, `count_down`",
        async || {
            assert!(latch.try_set_count(1).await.unwrap());
        },
        count_down,
    )
    .await;
}

#[tokio::test]
async fn a_redlock_acquire_is_one_round_trip_to_each_node() {
    let servers = [RedisServer::start(), RedisServer::start(), RedisServer::start()];
    let urls = servers.each_ref().map(RedisServer::url);
    let builder = Redlock::builder().nodes_persist_every_write();
    let redlock = builder.connect(urls.iter().map(String::as_str)).await.unwrap();
    let lock = redlock.lock("job");
    let hold = async || {
        let guard = lock.lock().await.unwrap();
        eventually("all nodes", || guard.votes() == 3).await;
        guard
    };
    hold().await.release().await.unwrap();
    servers.iter().for_each(RedisServer::reset_stats);
    let guard = hold().await;
    let taken = servers.each_ref().map(|server| cost(server).scripts);
    guard.release().await.unwrap();
    let all = servers.each_ref().map(|server| cost(server).scripts);
    println!("redlock over three nodes: {taken:?} round trips to acquire, {all:?} with the release");
    assert_eq!((taken, all), ([1; 3], [2; 3]));
}

#[tokio::test]
async fn a_woken_fair_waiter_costs_three_script_calls_and_one_subscription() {
    let server = RedisServer::start();
    let (one, other) = (connect(&server).await, connect(&server).await);
    for warm in [true, false] {
        let held = one.fair_lock("job").lock().await.unwrap();
        server.reset_stats();
        let lock = other.fair_lock("job");
        let waiting = tokio::spawn(async move { lock.lock().await.unwrap() });
        // The waiter tries, subscribes, and tries again. Then only a wake-up moves it.
        eventually("it to sleep", || cost(&server).scripts >= 2).await;
        held.release().await.unwrap();
        let guard = soon("its turn", waiting).await.unwrap();
        let cost = cost(&server);
        guard.release().await.unwrap();
        if warm {
            continue;
        }
        println!(
            "a fair waiter, from its first question to its grant, and the release that woke it: {} scripts, {} \
             commands in them, {:?}",
            cost.scripts, cost.inside, cost.others
        );
        assert_eq!(cost.scripts, 4, "two questions that were refused, one granted, and the release");
        assert_eq!(cost.others.get("subscribe"), Some(&1));
    }
}
