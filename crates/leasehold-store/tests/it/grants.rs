//! The contract as a user with the smallest rights, for each primitive alone and for all of them.

use std::time::Duration;

use leasehold_proto::engine::Subject;
use leasehold_proto::recipe::format::Format;
use leasehold_proto::recipe::grants::{Names, PRIMITIVES, Place, Primitive, rules};
use leasehold_proto::recipe::plain::{self, PLAIN};
use leasehold_proto::recipe::reentrant::REENTRANT;
use leasehold_proto::recipe::{Answer, CallContext, Renewal};
use leasehold_proto::{CallArgs, ClientId, Lease, Name, Recipe, Reply, WireOwner};
use leasehold_store::Store;
use leasehold_store::redis::{ConnectOptions, Redis};
use leasehold_testkit::contract::read_write::{self, marks};
use leasehold_testkit::contract::{
    election, expirable, fair, keep_alive, latch, locks, reentrant, semaphore,
};
use leasehold_testkit::servers::RedisServer;

use crate::contract::ClusterAdmin;

const LIMIT: Duration = Duration::from_secs(20);

/// The beginnings of the names in the contract.
fn names() -> [Names; 2] {
    ["{contract:", "contract:"].map(|prefix| Names::behind(prefix).unwrap())
}

/// A server, and a store whose user has the smallest rights.
async fn limited(place: Place, primitives: &[&str]) -> (RedisServer, Redis) {
    let server = match place {
        Place::Cluster => RedisServer::cluster(),
        _ => RedisServer::start(),
    };
    let primitives: Vec<_> = primitives.iter().map(|name| Primitive::named(name).unwrap()).collect();
    let rules = rules(place, &names(), &primitives);
    let user = ["ACL", "SETUSER", "app", "reset", "on", ">word"].into_iter().chain(rules.split(' '));
    assert_eq!(server.cli(&user.collect::<Vec<_>>()), "OK", "{rules}");
    let url = format!("redis://app:word@127.0.0.1:{}", server.port()).parse().unwrap();
    let store = Redis::connect(&url, ConnectOptions::default()).await.unwrap();
    (server, store)
}

/// Checks that the user may touch no other key and no other channel, and may not administer the server.
fn is_limited(server: &RedisServer) {
    let login = ["--user", "app", "--pass", "word", "--no-auth-warning"];
    let refused = [
        &["EVAL", "return redis.call('hset', KEYS[1], 'a', 'b')", "1", "elsewhere"][..],
        &["EVAL", "return redis.call('publish', ARGV[1], 'a')", "0", "elsewhere"],
        &["PUBLISH", "elsewhere", "a"],
        &["KEYS", "*"],
        &["FLUSHALL"],
        &["CONFIG", "GET", "save"],
        &["SCRIPT", "FLUSH"],
    ];
    for command in refused {
        let reply = server.cli(&[&login[..], command].concat());
        let is_refused =
            reply.contains("NOPERM") || reply.contains("can't") || reply.contains("No permissions");
        assert!(is_refused, "{command:?}: {reply}");
    }
}

macro_rules! passes {
    ($store:expr, $server:expr; $($contract:ident),+) => {{
        $(for name in $contract::NAMES {
            println!("{}: {name}", stringify!($contract));
            $contract::run(name, $store, $server).await;
        })+
    }};
}

#[tokio::test]
async fn the_smallest_rights_of_a_primitive_pass_its_contract() {
    for primitives in [&["lock"][..], &["fair"], &["rw"], &["semaphore"], &["expirable"], &["latch"]] {
        let (server, store) = limited(Place::Standalone, primitives).await;
        match primitives[0] {
            "lock" => passes!(&store, &server; reentrant),
            "fair" => passes!(&store, &server; fair),
            "rw" => passes!(&store, &server; read_write, marks),
            "semaphore" => passes!(&store, &server; semaphore),
            "expirable" => passes!(&store, &server; expirable),
            _ => passes!(&store, &server; latch),
        }
        is_limited(&server);
    }
    let (server, store) = limited(Place::Standalone, &["fenced", "spin", "multi", "redlock"]).await;
    passes!(&store, &server; locks);
    let (server, store) = limited(Place::Standalone, &["election"]).await;
    passes!(&store, &server; election);
    let (server, store) = limited(Place::Standalone, &["fair", "semaphore"]).await;
    passes!(&store, &server; keep_alive);
}

#[tokio::test]
async fn the_smallest_rights_of_all_primitives_pass_the_whole_contract() {
    let all: Vec<_> = PRIMITIVES.iter().map(|primitive| primitive.name).collect();
    let (server, store) = limited(Place::Standalone, &all).await;
    passes!(
        &store, &server;
        reentrant, fair, keep_alive, locks, election, read_write, marks, semaphore, expirable, latch
    );
    is_limited(&server);
}

#[tokio::test]
async fn the_smallest_rights_in_a_cluster_pass_the_contract_by_sharded_channels() {
    let (server, store) = limited(Place::Cluster, &["lock", "fair", "rw", "latch"]).await;
    let admin = ClusterAdmin(server);
    passes!(&store, &admin; reentrant, fair, read_write, marks, latch);
    is_limited(&admin.0);
}

#[tokio::test]
async fn the_listeners_of_a_hold_are_counted_only_with_the_right_to_it() {
    for place in [Place::Standalone, Place::Cluster] {
        let (server, store) = limited(place, &["lock"]).await;
        let subject = Subject::new(&Name::new("contract:job").unwrap(), &REENTRANT);
        let lease = Lease::new(Duration::from_secs(30)).unwrap();
        let args = CallArgs::new(&subject, WireOwner::new(ClientId::from_random([7; 16]), 1), lease);
        let limit = Duration::from_secs(20);
        assert_eq!(store.run((REENTRANT.acquire)(&args), limit).await, Ok(Reply::Nil));
        let count = async || store.run((REENTRANT.hand_off.unwrap())(&args), limit).await;
        assert_eq!(count().await, Ok(Reply::Int(2)), "nobody listens");
        assert_eq!(server.cli(&["ACL", "SETUSER", "app", "-pubsub"]), "OK");
        assert_eq!(count().await, Ok(Reply::Int(1)), "renewed, and the listeners are unknown");
    }
}

#[tokio::test]
async fn the_smallest_rights_of_plain_locks_run_each_of_their_calls() {
    for place in [Place::Standalone, Place::Cluster] {
        let (server, store) = limited(place, &["plain"]).await;
        let run = async |call| store.run(call, LIMIT).await;
        let named = |name: &str| Name::new(&format!("contract:{name}")).unwrap();
        let name = named("job");
        let subject = |recipe: &'static Recipe| Subject::new(&name, recipe);
        let mut subjects = vec![subject(&PLAIN), subject(&plain::REDLOCK)];
        // Names without a hash tag are in several slots of a cluster.
        if place == Place::Standalone {
            let mut fenced = Format::default();
            fenced.fence = Some(named("fence"));
            subjects.push(subject(&plain::FENCED).formatted(fenced));
            subjects.push(Subject { others: [named("other")].into(), ..subject(&plain::MULTI) });
        }
        for subject in subjects {
            let recipe = subject.recipe;
            let lease = Lease::new(Duration::from_secs(30)).unwrap();
            let args = |number| {
                let owner = WireOwner::new(ClientId::from_random([7; 16]), number);
                CallArgs::new(&subject, owner, lease)
            };
            let waits = CallContext { marks: true, ..CallContext::default() };
            let is_granted = |reply: &Reply| {
                (recipe.read_acquire)(reply).map(|answer| matches!(answer, Answer::Granted { .. }))
            };
            let reply = run((recipe.acquire)(&args(1))).await.unwrap();
            assert_eq!(is_granted(&reply), Some(true), "{}", recipe.kind);
            let reply = run((recipe.acquire)(&CallArgs { context: waits, ..args(2) })).await.unwrap();
            assert_eq!(is_granted(&reply), Some(false), "{}", recipe.kind);
            let reply = run((recipe.renew)(&args(1))).await.unwrap();
            assert_eq!((recipe.read_renew)(&reply), Some(Renewal::Renewed), "{}", recipe.kind);
            let reply = run((recipe.release)(&args(1).count(0))).await.unwrap();
            assert!((recipe.read_release)(&reply).unwrap().held, "{}", recipe.kind);
        }
        let held = subject(&PLAIN);
        let args =
            CallArgs::new(&held, WireOwner::new(ClientId::from_random([7; 16]), 9), Lease::clamped(LIMIT));
        run((PLAIN.acquire)(&args)).await.unwrap();
        run((PLAIN.hand_off.unwrap())(&args)).await.unwrap();
        assert!((PLAIN.read_release)(&run((PLAIN.release)(&args.count(1))).await.unwrap()).unwrap().held);
        run(plain::inspect(&name, held.format.as_deref().unwrap_or(&Format::default()), None)).await.unwrap();
        assert!(plain::read_holder(&run(plain::holder(&name)).await.unwrap()).unwrap().is_some());
        assert_eq!(run(plain::force_release(&name, &Format::default())).await, Ok(Reply::Int(1)));
        // A quiet release falls back to the script without the right to the native command.
        run((PLAIN.acquire)(&args)).await.unwrap();
        let quiet = CallContext { quiet: true, ..CallContext::default() };
        let reply = run((PLAIN.release)(&CallArgs { context: quiet, ..args.count(0) })).await.unwrap();
        assert!((PLAIN.read_release)(&reply).unwrap().held);
        is_limited(&server);
    }
}

/// The contract on fleets as production secures them: encrypted connections, and a user with the smallest rights.
#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
mod secured {
    use leasehold_proto::recipe::grants::rules_on_sentinels;
    use leasehold_store::redis::Tls;
    use leasehold_testkit::certificates::Authority;
    use leasehold_testkit::contract::{Admin, fleet, store};
    use leasehold_testkit::fleets::{Cluster, ClusterOptions, SentinelOptions, Sentinels, User};
    use leasehold_testkit::servers::Encryption;

    use super::*;
    use crate::contract::FleetAdmin;

    /// Returns the certificates of a fleet, and the authority, which keeps the files.
    fn encryption() -> (Authority, Option<Encryption>) {
        let authority = Authority::new();
        let encryption = Encryption::new(&authority, &authority.node(&["127.0.0.1"]));
        (authority, Some(encryption))
    }

    /// Returns the user of all primitives that `leasehold acl` prints.
    fn user(place: Place) -> Option<User> {
        let all: Vec<_> = PRIMITIVES.iter().collect();
        Some(User { rules: rules(place, &names(), &all), ..User::unlimited("app", "word") })
    }

    /// A behavior of stores that listens on a channel of no primitive, which the user may not.
    const FOREIGN: &str = "a_message_reaches_exactly_its_subscribers";

    async fn pass_the_contract(url: &str, authority: &Authority, admin: &impl Admin) {
        let options = ConnectOptions::default().tls(Tls::new().ca_file(authority.file()));
        let redis = Redis::connect(&url.parse().unwrap(), options).await.unwrap();
        for name in store::NAMES.iter().filter(|name| **name != FOREIGN) {
            println!("store: {name}");
            store::run(name, &redis, admin).await;
        }
        passes!(
            &redis, admin;
            reentrant, fair, keep_alive, fleet, locks, election, read_write, marks, semaphore, expirable, latch
        );
    }

    #[tokio::test]
    async fn the_smallest_rights_behind_encrypted_sentinels_pass_the_whole_contract() {
        let (authority, encryption) = encryption();
        let password = Some("secret".to_owned());
        let user = user(Place::BehindSentinels);
        let fleet =
            Sentinels::with(SentinelOptions { password, user, encryption, ..SentinelOptions::default() });
        for sentinel in fleet.sentinels() {
            let user = ["ACL", "SETUSER", "watch", "reset", "on", ">seen"].into_iter();
            sentinel.command(&user.chain(rules_on_sentinels().split(' ')).collect::<Vec<_>>()).unwrap();
        }
        let url = format!("{}?sentinel_username=watch&sentinel_password=seen", fleet.url());
        let master = &fleet.nodes()[fleet.master()];
        pass_the_contract(&url, &authority, master).await;
        is_limited(master);
    }

    #[tokio::test]
    async fn the_smallest_rights_in_an_encrypted_cluster_pass_the_whole_contract() {
        let (authority, encryption) = encryption();
        let (password, user) = (Some("secret".to_owned()), user(Place::Cluster));
        let options = ClusterOptions { replicas: 1, password, user, encryption, ..ClusterOptions::default() };
        let admin = FleetAdmin(Cluster::with(options));
        pass_the_contract(&admin.0.url(), &authority, &admin).await;
        is_limited(&admin.0.nodes()[0]);
    }
}
